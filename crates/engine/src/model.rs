//! A loaded model, and requests to it.

mod chats;
mod checks;
mod decode;
mod defaults;
mod effort;
mod embed;
pub(crate) mod load;
mod logits;
mod loras;
mod outline;
mod rerank;
mod summary;
mod tower_outline;
mod value_plans;
mod value_requests;
mod vocabulary;

use std::{
    ops::ControlFlow,
    path::Path,
    sync::{Arc, OnceLock, mpsc::Sender},
};

use pelton_graph::{Limits, OutputKind, Plan};
use pelton_place::Placement;
use pelton_tokenizer::{Special, Tokenizer};
use pelton_weights::{Checkpoint, MappedFiles, Source};

use crate::{
    Error,
    api::{
        AsyncTokenStream, EffortUse, Event, GenerateOptions, KeepAlive, Pooling, Prompt,
        PromptToken, RequestHandle, Speculation, Stats, Status, TokenStream, channel,
    },
    chat::ChatTemplate,
    results::results,
    schedule::{
        DrawOptions, Goal, LookupDrafter, Output, PromptScores, Sequence, Shared, Sink, Terms,
        Worker,
    },
    session::Session,
    vision::{Tokenized, Vision},
};

pub use defaults::SamplingDefaults;
pub use effort::BucketFile;
use loras::Loras;
pub use outline::Outline;
pub use summary::Summary;
pub use tower_outline::TowerOutline;

/// A model that is ready to answer requests. Clones are handles of the same model.
///
/// It is unloaded with the last of them and of their [`TokenStream`]s; requests that are not
/// finished then are cancelled.
#[derive(Clone)]
pub struct Model {
    requests: Sender<Box<Sequence>>,
    loaded: Arc<Loaded>,
    shared: Arc<Shared>,
    /// The device, as [`Summary::device`] describes it.
    device: Arc<str>,
    // after the sender: the thread ends when no sender is left
    worker: Arc<Worker>,
}

struct Loaded {
    checkpoint: Arc<Checkpoint>,
    plan: Plan,
    tokenizer: Option<Arc<Tokenizer>>,
    /// The chat template, compiled at its first use.
    chat_template: OnceLock<Arc<ChatTemplate>>,
    limits: Limits,
    /// Bytes of the weights, and of the caches.
    weight_bytes: u64,
    kv_bytes: u64,
    /// The pooling of embeddings.
    pooling: Pooling,
    /// Whether tokens are drafted where a request does not say.
    speculation: Speculation,
    /// Whether rejected drafts can be taken back.
    rolls_back: bool,
    efforts: effort::LoadedEffort,
    decoding: decode::Decoding,
    loras: Loras,
    placement: Placement,
    /// The vision tower, as callers need it.
    vision: Option<Vision>,
    /// The files whose bytes passes read.
    files: MappedFiles,
}

impl Loaded {
    /// The salt of a sequence's cached prefixes; `None` if a plan's sequences cannot share them:
    /// rows that see later ones depend on the whole text.
    fn salt(&self, salt: u64) -> Option<u64> {
        (!self.plan.whole_sequences).then_some(salt)
    }

    /// Refuses a request that needs other results than the plan's.
    fn check_output(&self, expected: OutputKind) -> Result<(), Error> {
        match self.plan.output == expected {
            true => Ok(()),
            false => Err(Error::Output {
                file: self.checkpoint.name().to_owned(),
                found: results(self.plan.output),
                expected: results(expected),
            }),
        }
    }
}

impl Model {
    /// Submits a request for the text after a prompt. Its events are passed to `sink` one by one,
    /// the last of which is [`Event::Finished`] or [`Event::Failed`].
    ///
    /// The callback runs on the thread that runs the model: all requests wait while it runs, so
    /// it must not block. If it returns [`ControlFlow::Break`] or panics, its request is
    /// cancelled and it is dropped.
    ///
    /// # Errors
    ///
    /// [`Error::Output`] if the model has no logits. Others if the prompt is empty, too long, has
    /// an unknown token, or is text for a model without a vocabulary. Also if a value of the
    /// request is out of its range, the queue is full, or the model is gone.
    pub fn submit(
        &self,
        prompt: impl Into<Prompt>,
        options: GenerateOptions,
        sink: impl FnMut(Event) -> ControlFlow<()> + Send + 'static,
    ) -> Result<RequestHandle, Error> {
        self.submit_boxed(&prompt.into(), &options, Box::new(sink))
    }

    fn submit_boxed(
        &self,
        prompt: &Prompt,
        options: &GenerateOptions,
        sink: Sink,
    ) -> Result<RequestHandle, Error> {
        self.shared.check()?;
        self.loaded.check_output(OutputKind::Logits)?;
        options.sampling.check().map_err(Error::Sampling)?;
        let Tokenized { tokens, pictures } = self.tokens(prompt)?;
        self.check_request(options, &tokens)?;
        if pictures.is_some() && options.prompt_logprobs.is_some() {
            let what = "prompt_logprobs of a prompt with pictures, expected one of text alone";
            return Err(Error::Sampling(what.to_owned()));
        }
        if options.constraint.is_some() {
            self.tokenizer()?;
        }
        let (decoding, tokenizer) = (&self.loaded.decoding, self.loaded.tokenizer.as_ref());
        let host = decoding.host_draw(options, tokenizer)?;
        let constraint = decoding.constraint(options, tokenizer, self.loaded.plan.vocab)?;
        let constraint = constraint.filter(|_| options.max_tokens != Some(0));
        let loras = self.loaded.loras.of(options.loras.as_deref())?;
        let effort = self.loaded.efforts.of(options.effort, &self.loaded.plan)?;
        let context = self.loaded.limits.context;
        // tokens drawn on the host need it one by one; forced ones come whatever their bias, which
        // a draw among drafts cannot do
        let excludes = options.logit_bias.iter().any(|one| one.bias.is_infinite());
        let drafts =
            host.is_none() && constraint.as_ref().is_none_or(|g| g.can_draft() && !excludes);
        let drafter = self.drafter(options, &tokens)?.filter(|_| drafts);
        let place = self.shared.bound.enter(tokens.len(), options.client.id)?;
        let most = match options.max_tokens {
            Some(generated) => tokens.len().saturating_add(generated).min(context),
            None => context,
        };
        let scores = options.prompt_logprobs.map(|top| PromptScores::new(top, &tokens));
        let seed = options.sampling.seed_or_random();
        let handle = RequestHandle::new(Stats::new(tokens.len(), seed));
        let output = Output::new(sink, handle.clone(), options.stop.clone(), options.ignore_eos);
        let goal = Goal::text(DrawOptions::new(options, seed, host, constraint), output);
        let salt = self.loaded.salt(options.cache_salt);
        let salt = salt.filter(|_| pictures.as_ref().is_none_or(|of| of.have_numbers()));
        let effort_in_prompt = options.effort_in_prompt || most <= tokens.len();
        let (client, deadline) = (options.client, options.deadline);
        let terms = Terms { salt, loras, client, effort, effort_in_prompt, deadline };
        let sequence = Sequence::new(tokens, most, terms, goal, place);
        let sequence = sequence.with_scores(scores).with_drafter(drafter).with_pictures(pictures);
        self.send(sequence)?;
        Ok(handle)
    }

    /// Compiles a constraint for the vocabulary, as a request with it would.
    ///
    /// # Errors
    ///
    /// If the model has no vocabulary, or as [`submit`](Self::submit) of such a request.
    pub fn check_constraint(&self, constraint: &crate::Constraint) -> Result<(), Error> {
        self.tokenizer()?;
        self.loaded.decoding.check(constraint, self.loaded.tokenizer.as_ref())
    }

    /// The source of a request's drafts, if tokens are drafted.
    fn drafter(
        &self,
        options: &GenerateOptions,
        tokens: &[u32],
    ) -> Result<Option<Box<LookupDrafter>>, Error> {
        let speculation = options.speculation.unwrap_or(self.loaded.speculation);
        let mut prediction = match &options.prediction {
            None => Vec::new(),
            // the middle of a text: nothing is added before it
            Some(Prompt::Text(text)) => self.tokenizer()?.encode(text, Special::Parse)?,
            Some(other) => self.tokens(other)?.tokens,
        };
        let vocab = self.loaded.plan.vocab;
        if let Some(&token) = prediction.iter().find(|&&token| token as usize >= vocab) {
            return Err(Error::UnknownToken { token, vocab });
        }
        // more than that cannot be generated
        prediction.truncate(self.loaded.limits.context);
        if speculation == Speculation::Off || !self.loaded.rolls_back {
            return Ok(None);
        }
        Ok(Some(Box::new(LookupDrafter::new(speculation, tokens, prediction))))
    }

    /// Generates the text after a prompt, and returns its tokens as an iterator that waits for
    /// each.
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit); [`Error::OwnThread`] in a callback.
    pub fn generate(
        &self,
        prompt: impl Into<Prompt>,
        options: GenerateOptions,
    ) -> Result<TokenStream, Error> {
        if self.worker.is_own_thread() {
            return Err(Error::OwnThread);
        }
        self.token_stream(&prompt.into(), &options)
    }

    /// The tokens of a prompt with their log-probabilities. Waits for them; nothing is generated.
    ///
    /// ```
    /// use pelton::{Engine, GenerateOptions, LoadOptions, ModelSource};
    ///
    /// let engine = Engine::builder().build()?;
    /// let model = engine.load(ModelSource::BuiltIn, &LoadOptions::default())?;
    /// let tokens = model.logprobs("The cat sat on the mat.", GenerateOptions::default())?;
    /// let sum: f64 = tokens.iter().filter_map(|token| token.logprob).map(f64::from).sum();
    /// println!("perplexity {}", (-sum / (tokens.len() - 1) as f64).exp());
    /// # assert!(sum < 0.0);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`generate`](Self::generate), and if the request fails.
    pub fn logprobs(
        &self,
        prompt: impl Into<Prompt>,
        mut options: GenerateOptions,
    ) -> Result<Vec<PromptToken>, Error> {
        options.prompt_logprobs.get_or_insert(0);
        let mut stream = self.generate(prompt, options.max_tokens(0))?;
        stream.next().transpose()?;
        Ok(stream.into_prompt())
    }

    /// Generates the text after a prompt, and returns its tokens as an asynchronous stream, for any
    /// executor.
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit).
    pub fn stream(
        &self,
        prompt: impl Into<Prompt>,
        options: GenerateOptions,
    ) -> Result<AsyncTokenStream, Error> {
        Ok(AsyncTokenStream::new(self.token_stream(&prompt.into(), &options)?))
    }

    fn token_stream(
        &self,
        prompt: &Prompt,
        options: &GenerateOptions,
    ) -> Result<TokenStream, Error> {
        let (sink, events) = channel();
        let handle = self.submit_boxed(prompt, options, Box::new(sink))?;
        let worker: Arc<dyn KeepAlive> = Arc::clone(&self.worker) as _;
        Ok(TokenStream::new(events, handle, worker))
    }

    /// Ends the model's thread and makes a [`Session`] of it: one sequence that the caller runs by
    /// hand. Requests that have not finished are cancelled. It needs the feature `unstable`.
    ///
    /// # Errors
    ///
    /// [`Error::InUse`] if there is a clone of the model, or a [`TokenStream`] or
    /// [`AsyncTokenStream`] of it; [`Error::OwnThread`] in a callback; [`Error::Gone`] if the model
    /// is gone. The handle is dropped then.
    #[cfg(feature = "unstable")]
    pub fn into_session(self) -> Result<Session, Error> {
        let Self { requests, loaded, shared, worker, device: _ } = self;
        let is_whole = loaded.efforts.has_no_form();
        // the thread ends when no sender is left, also where an error drops the worker
        drop(requests);
        if worker.is_own_thread() {
            return Err(Error::OwnThread);
        }
        shared.check()?;
        let worker = Arc::try_unwrap(worker).map_err(|worker| {
            // another handle may have been dropped since
            Error::InUse { others: Arc::strong_count(&worker).saturating_sub(1).max(1) }
        })?;
        let resources = worker.end()?;
        shared.check()?;
        Session::new(resources, is_whole)
    }

    /// The outcome of the load: formats, bytes, context and device.
    pub fn summary(&self) -> Summary {
        let loaded = &self.loaded;
        Summary {
            name: summary::name_of(&loaded.checkpoint),
            formats: summary::formats(&loaded.checkpoint),
            weight_bytes: loaded.weight_bytes,
            kv_bytes: loaded.kv_bytes,
            context: loaded.limits.context,
            longest_context: loaded.plan.context,
            device: self.device.to_string(),
        }
    }

    /// How requests of an effort below 1 run; `None` if the model was loaded without
    /// [`LoadOptions::effort`](crate::LoadOptions::effort).
    pub fn effort_use(&self) -> Option<&EffortUse> {
        self.loaded.efforts.of_requests()
    }

    /// The part of the model that each device has.
    pub fn placement(&self) -> &Placement {
        &self.loaded.placement
    }

    /// The same model with the description of the device that its engine gives.
    pub(crate) fn on(mut self, device: Arc<str>) -> Self {
        self.device = device;
        self
    }

    /// The load of the model: its queue, its running requests, its pages by state.
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// Text to tokens, with what the model file says belongs before and after a text.
    ///
    /// # Errors
    ///
    /// [`Error::NoVocabulary`] if the file has none.
    pub fn tokenizer(&self) -> Result<&Tokenizer, Error> {
        self.shared_tokenizer().map(|tokenizer| &**tokenizer)
    }

    /// The tokenizer, for a program that keeps it longer than the model. It needs
    /// the feature `unstable`.
    ///
    /// # Errors
    ///
    /// As [`tokenizer`](Self::tokenizer).
    #[cfg(feature = "unstable")]
    pub fn keep_tokenizer(&self) -> Result<Arc<Tokenizer>, Error> {
        self.shared_tokenizer().map(Arc::clone)
    }

    fn shared_tokenizer(&self) -> Result<&Arc<Tokenizer>, Error> {
        let checkpoint = &self.loaded.checkpoint;
        self.loaded.tokenizer.as_ref().ok_or_else(|| Error::NoVocabulary {
            file: Path::new(checkpoint.name()).to_owned(),
            found: match checkpoint.source() {
                Source::HuggingFace => "tokenizer.json is missing",
                Source::Gguf | Source::Ggml => "the file has no vocabulary",
            },
        })
    }

    /// The names of the LoRA adapters that requests can choose, in the order of the
    /// [load](crate::LoadOptions::lora): the paths that were given there.
    pub fn loras(&self) -> &[String] {
        &self.loaded.loras.names
    }

    /// The defaults of sampling: the keys `general.sampling.*` of a GGUF file, or those of
    /// `generation_config.json`, in place of [`Sampling::default`](pelton_sampling::Sampling)'s
    /// values. No request uses them by itself.
    pub fn sampling_defaults(&self) -> SamplingDefaults {
        defaults::of(self.loaded.checkpoint.metadata())
    }

    /// The plan that the model runs. It needs the feature `unstable`.
    #[cfg(feature = "unstable")]
    pub fn plan(&self) -> &Plan {
        &self.loaded.plan
    }

    /// The file that the model came from. It needs the feature `unstable`.
    #[cfg(feature = "unstable")]
    pub fn checkpoint(&self) -> &Arc<Checkpoint> {
        &self.loaded.checkpoint
    }

    /// Positions that a sequence can have.
    pub fn context(&self) -> usize {
        self.loaded.limits.context
    }

    fn send(&self, sequence: Sequence) -> Result<(), Error> {
        self.requests.send(Box::new(sequence)).map_err(|_| self.shared.error())?;
        self.shared.bound.inline_step.make_room();
        Ok(())
    }
}
