//! A loaded model, and requests to it.

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        mpsc::{self, Sender},
    },
    thread::{self, JoinHandle},
};

use pelton_graph::{Backend, KvType, Limits, Plan, pages_for};
use pelton_sampling::Sampler;
use pelton_tokenizer::Tokenizer;
use pelton_weights::Checkpoint;

use crate::{
    Error, Prompt, Request, Session, TokenStream,
    runner::Runner,
    scheduler::{Command, Scheduler},
    sequence::Sequence,
};

/// For what a model is loaded.
///
/// ```
/// use pelton::LoadOptions;
///
/// let long = LoadOptions { context: Some(32_768), ..LoadOptions::default() };
/// assert_eq!(long.sequences, 1);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct LoadOptions {
    /// Positions that a sequence can have; `None` for the model's own, but at most 4,096.
    pub context: Option<usize>,
    /// Sequences that run at the same time, at most; each has a cache for the whole context.
    pub sequences: usize,
    /// Tokens of prompts that are run in one pass, at most.
    pub batch: usize,
    /// The element type of the key and value caches.
    pub kv: KvType,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self { context: None, sequences: 1, batch: 512, kv: KvType::F16 }
    }
}

/// The context when none is asked for, where the model's is longer: enough for a conversation,
/// and little memory.
const DEFAULT_CONTEXT: usize = 4096;
/// Rows whose logits one pass can give.
const SELECTED: usize = 64;

/// A model that is ready to answer requests. Clones are handles of the same model; it is unloaded
/// with the last of them and their streams.
#[derive(Clone)]
pub struct Model {
    commands: Sender<Command>,
    shared: Arc<Shared>,
    // after the sender: the thread ends when nobody can send any more
    worker: Arc<Worker>,
}

/// The thread that runs a model. Whoever lets go of it last waits for its end, so that no device is
/// still at work when the process ends.
#[derive(Debug)]
pub(crate) struct Worker(Mutex<Option<JoinHandle<()>>>);

impl Drop for Worker {
    fn drop(&mut self) {
        let handle = self.0.get_mut().ok().and_then(Option::take);
        if let Some(handle) = handle
            && handle.thread().id() != thread::current().id()
        {
            // what it could say has been said in its streams
            let _ = handle.join();
        }
    }
}

struct Shared {
    checkpoint: Arc<Checkpoint>,
    plan: Plan,
    tokenizer: Option<Arc<Tokenizer>>,
    context: usize,
}

impl Model {
    pub(crate) fn load(
        backend: &dyn Backend,
        checkpoint: Checkpoint,
        options: &LoadOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self, Error> {
        let checkpoint = Arc::new(checkpoint);
        let plan = pelton_graph::build(&checkpoint)?.fuse(backend.fusions());
        let tokenizer = match Tokenizer::from_metadata(checkpoint.metadata()) {
            Ok(tokenizer) => Some(Arc::new(tokenizer)),
            Err(pelton_tokenizer::Error::NoVocabulary) => None,
            Err(error) => return Err(error.into()),
        };
        let context = options.context.unwrap_or(plan.context.min(DEFAULT_CONTEXT));
        if context == 0 || context > plan.context {
            return Err(Error::Context { asked: context, context: plan.context });
        }
        let sequences = options.sequences.max(1);
        let limits = Limits {
            rows: options.batch.clamp(1, context.max(1)).max(sequences),
            selected: SELECTED.max(sequences),
            sequences,
            pages: pages_for(context).saturating_mul(sequences).min(u32::MAX as usize),
            kv: options.kv,
        };
        let executable = backend.load(plan.clone(), Arc::clone(&checkpoint), limits, progress)?;
        let runner = Runner::new(executable, limits, plan.vocab, context);
        let (commands, receiver) = mpsc::channel();
        let scheduler = Scheduler::new(runner, tokenizer.clone(), receiver);
        let handle = thread::Builder::new()
            .name("pelton-scheduler".into())
            .spawn(move || scheduler.run())
            .map_err(|_| Error::Stopped)?;
        let worker = Arc::new(Worker(Mutex::new(Some(handle))));
        let shared = Arc::new(Shared { checkpoint, plan, tokenizer, context });
        Ok(Self { commands, shared, worker })
    }

    /// Starts to answer a request.
    ///
    /// # Errors
    ///
    /// If the prompt is empty, too long or has an unknown token, if the model has no vocabulary
    /// and the prompt is text, or if a sampling value is out of its range.
    pub fn generate(&self, request: Request) -> Result<TokenStream, Error> {
        request.sampling.check().map_err(Error::Sampling)?;
        let tokens = match &request.prompt {
            Prompt::Text(text) => self.tokenizer()?.encode_prompt(text)?,
            Prompt::Tokens(tokens) => tokens.clone(),
        };
        self.check(&tokens)?;
        let context = self.shared.context;
        if tokens.len() >= context {
            return Err(Error::PromptTooLong { tokens: tokens.len(), context });
        }
        let (events, receiver) = mpsc::channel();
        let sampler = Sampler::new(request.sampling.clone());
        let stream =
            TokenStream::new(receiver, tokens.len(), sampler.seed(), Arc::clone(&self.worker));
        let most = match request.max_tokens {
            Some(made) => tokens.len().saturating_add(made).min(context),
            None => context,
        };
        if most == tokens.len() {
            return Ok(stream.empty());
        }
        let sequence = Sequence::new(tokens, most, request, sampler, events);
        self.send(Command::Begin(Box::new(sequence)))?;
        Ok(stream)
    }

    /// Lends out the model, when no request is running, for one sequence of at most `positions`
    /// positions that is run by hand; waits for what `job` returns.
    pub fn session<T: Send + 'static>(
        &self,
        positions: usize,
        job: impl FnOnce(&mut Session<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        if positions == 0 || positions > self.shared.context {
            return Err(Error::Context { asked: positions, context: self.shared.context });
        }
        let (sender, receiver) = mpsc::channel();
        self.send(Command::Lend(Box::new(move |runner| {
            let outcome = Session::new(runner, positions).and_then(|mut session| job(&mut session));
            // nobody waits any more if this fails
            let _ = sender.send(outcome);
        })))?;
        receiver.recv().map_err(|_| Error::Stopped)?
    }

    /// Text to tokens, with what the model file says belongs before and after a text.
    pub fn tokenizer(&self) -> Result<&Tokenizer, Error> {
        self.shared.tokenizer.as_deref().ok_or_else(|| Error::NoVocabulary {
            file: Path::new(self.shared.checkpoint.name()).to_owned(),
        })
    }

    /// The plan that the model runs.
    pub fn plan(&self) -> &Plan {
        &self.shared.plan
    }

    /// The file that the model came from.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.shared.checkpoint
    }

    /// Positions that a sequence can have.
    pub fn context(&self) -> usize {
        self.shared.context
    }

    fn check(&self, tokens: &[u32]) -> Result<(), Error> {
        let vocab = self.shared.plan.vocab;
        match tokens.iter().find(|&&token| token as usize >= vocab) {
            Some(&token) => Err(Error::UnknownToken { token, vocab }),
            None if tokens.is_empty() => Err(Error::EmptyPrompt),
            None => Ok(()),
        }
    }

    fn send(&self, command: Command) -> Result<(), Error> {
        self.commands.send(command).map_err(|_| Error::Stopped)
    }
}
