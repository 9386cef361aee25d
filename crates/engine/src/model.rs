//! A loaded model, and requests to it.

use std::{
    path::Path,
    sync::{
        Arc,
        mpsc::{self, Sender},
    },
    thread,
};

use pelton_graph::{Backend, KvType, Limits, Plan, pages_for};
use pelton_tokenizer::Tokenizer;
use pelton_weights::Checkpoint;

use crate::{
    Error, Prompt, Request, Session, TokenStream,
    runner::Runner,
    sampling::Sampler,
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
        read_ahead(&checkpoint, progress);
        let executable = backend.load(plan.clone(), Arc::clone(&checkpoint), limits)?;
        let runner = Runner::new(executable, limits, plan.vocab, context);
        let (commands, receiver) = mpsc::channel();
        let scheduler = Scheduler::new(runner, tokenizer.clone(), receiver);
        thread::Builder::new()
            .name("pelton-scheduler".into())
            .spawn(move || scheduler.run())
            .map_err(|_| Error::Stopped)?;
        Ok(Self { commands, shared: Arc::new(Shared { checkpoint, plan, tokenizer, context }) })
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
        let stream = TokenStream::new(receiver, tokens.len(), sampler.seed());
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

/// Reads every page of the weights once, so that it is the load that waits for a slow disk, with
/// progress, and not the first token.
fn read_ahead(checkpoint: &Checkpoint, progress: &mut dyn FnMut(u64, u64)) {
    /// The smallest page of the systems that run this.
    const PAGE_BYTES: usize = 4096;
    const STEP: usize = 16 << 20;
    let all: u64 = checkpoint.tensors().map(|tensor| tensor.bytes.len() as u64).sum();
    let mut done = 0;
    for tensor in checkpoint.tensors() {
        for part in tensor.bytes.chunks(STEP) {
            let sum =
                part.iter().step_by(PAGE_BYTES).fold(0u8, |sum, &byte| sum.wrapping_add(byte));
            std::hint::black_box(sum);
            done += part.len() as u64;
            progress(done, all);
        }
    }
}
