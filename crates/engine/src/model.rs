//! A loaded model, and requests to it.

mod buckets;
mod chats;
mod checks;
mod decode;
mod defaults;
mod draft;
mod effort;
mod efforts;
mod embed;
mod logits;
mod loras;
mod many;
mod outline;
mod pays;
mod planned;
mod rerank;
mod summary;
mod value_plans;
mod vocabulary;

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        mpsc::{self, Sender},
    },
    time::Duration,
};

use pelton_graph::{Backend, Effort, Executable, Limits, OutputKind, Plan};
use pelton_place::Placement;
use pelton_tokenizer::{Special, Tokenizer};
use pelton_weights::{Checkpoint, Lora, MappedFiles, Source};

use crate::{
    Error,
    api::{
        AsyncTokenStream, Event, GenerateOptions, KeepAlive, LoadOptions, Pooling, Prompt,
        PromptToken, RequestHandle, Speculation, Stats, Status, TokenStream, channel,
    },
    chat::ChatTemplate,
    kv::{self, PageCache},
    placement::{self, Devices, KnownRates, Placed},
    results::results,
    schedule::{
        DrawOptions, Goal, LookupDrafter, Output, PromptScores, QueueBound, Resources, Runner,
        Scheduler, Sequence, Shared, Sink, Targets, Worker,
    },
    session::{Session, effort_of, of_plan},
};

pub use buckets::BucketFile;
pub use defaults::SamplingDefaults;
pub use effort::EffortFile;
use loras::{LORAS_OF_REQUEST, Loras};
pub use outline::Outline;
pub(crate) use planned::explain;
pub use summary::Summary;

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
    context: usize,
    /// Bytes of the weights, and of the caches.
    weight_bytes: u64,
    kv_bytes: u64,
    /// Ids below which all tokens are.
    tokens: usize,
    /// The most rows of a pass.
    rows: usize,
    /// The most sequences that run at the same time.
    sequences: usize,
    /// The pooling of embeddings.
    pooling: Pooling,
    /// Whether tokens are drafted where a request does not say.
    speculation: Speculation,
    /// Whether rejected drafts can be taken back.
    rolls_back: bool,
    /// The effort of requests that do not say.
    effort: Effort,
    /// Whether the weights for efforts below 1 fit in memory.
    effort_fits: bool,
    /// The times of a token of the whole model and of one at an effort, where they were measured.
    effort_times: Option<[Duration; 2]>,
    /// Whether requests run the whole model in place of their efforts.
    runs_whole: bool,
    /// The file of its calibration, if there is one, and whether this load has measured it.
    effort_table: Option<PathBuf>,
    measured_effort: bool,
    decoding: decode::Decoding,
    loras: Loras,
    placement: Placement,
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
    pub(crate) fn load(
        devices: &Devices,
        mut checkpoint: Checkpoint,
        options: &LoadOptions,
    ) -> Result<Self, Error> {
        if let Some(to) = options.quantize {
            checkpoint =
                checkpoint.quantized(to, &mut |done, total| options.report(done, total))?;
        }
        let mut plan = planned::of_checkpoint(&checkpoint, options)?;
        let built = options.effort.as_ref().map(|effort| (plan.clone(), effort));
        let adapters: Vec<Lora> = options
            .loras
            .iter()
            .map(|adapter| Lora::open(&adapter.path, &checkpoint))
            .collect::<Result<_, _>>()?;
        let tensors = Lora::attach(&adapters, &mut checkpoint)?;
        plan = plan.add_loras(&tensors, LORAS_OF_REQUEST)?;
        let placed = placement::choose(devices, &plan, options)?;
        let backend = placed.backend.as_ref();
        let plan = plan.fuse(&|op, plan| backend.accepts(op, plan));
        let marked = match built {
            Some((built, effort)) => {
                effort::with_effort((plan, built), checkpoint, backend, effort, options)?
            }
            None => effort::Marked::without(plan, Arc::new(checkpoint)),
        };
        Self::load_marked(&placed, marked, options)
    }

    pub(crate) fn load_plan(
        backend: &Arc<dyn Backend>,
        plan: Plan,
        checkpoint: Arc<Checkpoint>,
        options: &LoadOptions,
    ) -> Result<Self, Error> {
        let placed = Placed::one(Arc::clone(backend), Arc::new(KnownRates::new(None)));
        Self::load_marked(&placed, effort::Marked::without(plan, checkpoint), options)
    }

    fn load_marked(
        placed: &Placed,
        effort::Marked { plan, checkpoint, file: effort_table, is_measured }: effort::Marked,
        options: &LoadOptions,
    ) -> Result<Self, Error> {
        let progress = &mut |done, total| options.report(done, total);
        let (backend, last) = (placed.backend.as_ref(), placed.last.as_ref());
        let span = tracing::info_span!("load", model = checkpoint.name(), backend = backend.name());
        let _entered = span.enter();
        let tokenizer = match Tokenizer::from_metadata(checkpoint.metadata()) {
            Ok(tokenizer) => Some(Arc::new(tokenizer)),
            Err(pelton_tokenizer::Error::NoVocabulary) => None,
            Err(error) => return Err(error.into()),
        };
        let tokens = tokenizer.as_deref().map_or(plan.vocab, vocabulary::used_tokens);
        let weight =
            |weight: &pelton_graph::Weight| weight.dtype.bytes_of(weight.len()).unwrap_or(0) as u64;
        let keeps_hidden = plan.entry.is_empty() && !plan.exit.is_empty();
        let head = if keeps_hidden { draft::head_plan(&checkpoint, options)? } else { None };
        let own = |weight: &&pelton_graph::Weight| !plan.weights.contains(weight);
        let of_head = head.iter().flat_map(|head| head.weights.iter().filter(own));
        let head_weights: u64 = of_head.map(weight).sum();
        let weights = pelton_place::file_bytes(&plan) + head_weights;
        let head_caches = head.as_ref().map_or(0, |head| kv::full_length_bytes(options, head));
        let pooling = value_plans::pooling(&plan, options)?;
        value_plans::mention_pooling(&checkpoint, &plan, options);
        let load = |plan: &Plan| -> Result<(Limits, Placement, Box<dyn Executable>), Error> {
            let limits = placed.limits(plan, tokens, options, head_weights + head_caches)?;
            let mut table = placed.table(plan, &limits, options)?;
            tracing::info!(%table, steps = plan.steps.len(), ?limits, "the plan and the devices are chosen");
            let checkpoint = Arc::clone(&checkpoint);
            let progress = &mut |done, total| options.report(done, total);
            let executable = backend.load(plan.clone(), checkpoint, limits.clone(), progress)?;
            table.stream_from = executable.pipeline().streams;
            Ok((limits, table, executable))
        };
        let may_be_whole = effort::may_be_whole(options) && backend.effort_bytes(&plan) > 0;
        let (plan, (limits, table, mut executable), effort_fits) =
            effort::load_or_whole(plan, may_be_whole, load)?;
        let effort = effort::of_load(options)?;
        let is_timed = options.effort.as_ref().is_some_and(|effort| !effort.always);
        // on the CPU, where passes do not overlap, efforts are not timed
        let effort_times = match is_timed && executable.pipeline().depth > 1 && plan.has_effort() {
            true => pays::times(&mut *executable, &plan, &limits, effort)?,
            false => None,
        };
        // weights of a file that was cut meanwhile are zeros
        checkpoint.check_files()?;
        let runner = Runner::new(executable, checkpoint.files());
        let files = runner.files().clone();
        tracing::info!(pipeline = ?runner.pipeline, "the model is loaded");
        let target = draft::Target {
            name: checkpoint.name(),
            plan: &plan,
            limits: &limits,
            tokenizer: tokenizer.as_deref(),
        };
        let load_draft = |source| draft::load(last, source, &target, progress);
        let draft_model = options.draft.as_ref().map(load_draft).transpose()?.flatten();
        let snapshots = (!plan.states.is_empty()).then_some(limits.snapshots);
        // a recurrent state is rolled back to a snapshot
        let rolls_back = plan.states.is_empty() || snapshots.is_some_and(|count| count > 0);
        let load_head =
            |head| draft::load_head(last, head, &checkpoint, &limits, options, progress);
        let head = head.filter(|_| rolls_back).map(load_head).transpose()?.flatten();
        let agree = runner.pipeline.phases_agree;
        let kv_bytes = kv::bytes(&plan, &limits);
        let kv = PageCache::new(&plan.groups, &limits.pages, snapshots, agree)
            .reporting_to(options.cache_events.clone());
        let (context, rows, sequences) = (limits.context, limits.rows, limits.sequences);
        let drawable = limits.tokens;
        let bound = Arc::new(QueueBound::new(options.queue_requests, options.queue_tokens));
        let shared = Arc::new(Shared::new(Arc::clone(&bound)));
        let loras = Loras::new(options, &plan)?;
        let resources =
            Resources { runner, kv, limits, plan: plan.clone(), loras: loras.defaults.clone() };
        let tokens = tokenizer.clone();
        let scheduler = Scheduler::new(
            resources,
            tokens,
            Targets {
                first: options.target_ttft,
                between: options.target_tbt,
                prefill: options.prefill_budget,
            },
            bound,
            draft_model,
            head,
        );
        let (requests, receiver) = mpsc::channel();
        let worker = Arc::new(Worker::spawn(scheduler, receiver, Arc::clone(&shared))?);
        let speculation = if rolls_back { options.speculation } else { Speculation::Off };
        let loaded = Arc::new(Loaded {
            checkpoint,
            plan,
            tokenizer,
            chat_template: OnceLock::new(),
            context,
            weight_bytes: weights,
            kv_bytes,
            tokens: drawable,
            rows,
            sequences,
            pooling,
            speculation,
            rolls_back,
            effort,
            effort_fits,
            effort_times,
            runs_whole: !effort_fits
                || effort_times.is_some_and(|[whole, less]: [Duration; 2]| less >= whole),
            effort_table,
            measured_effort: is_measured,
            decoding: decode::Decoding::default(),
            loras,
            placement: table,
            files,
        });
        Ok(Self { requests, loaded, shared, device: backend.name().into(), worker })
    }

    /// Submits a request for the text after a prompt. Its events are passed to `sink` one by one, the
    /// last of which is [`Event::Finished`] or [`Event::Failed`].
    ///
    /// The callback runs on the thread that runs the model: all requests wait while it runs, so it
    /// must not block. If it returns [`ControlFlow::Break`] or panics, its request is cancelled and it is
    /// dropped.
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
        let tokens = self.tokens(prompt)?;
        self.check_request(options, &tokens)?;
        if options.constraint.is_some() {
            self.tokenizer()?;
        }
        let (decoding, tokenizer) = (&self.loaded.decoding, self.loaded.tokenizer.as_ref());
        let host = decoding.host_draw(options, tokenizer)?;
        let constraint = decoding.constraint(options, tokenizer, self.loaded.plan.vocab)?;
        let constraint = constraint.filter(|_| options.max_tokens != Some(0));
        let loras = self.loaded.loras.of(options.loras.as_deref())?;
        let effort = options.effort.map_or(Ok(self.loaded.effort), effort_of)?;
        // an effort of a model that has none is refused, unless its copies alone do not fit
        let effort = if self.loaded.effort_fits { effort } else { Effort::FULL };
        let effort = of_plan(effort, &self.loaded.plan)?;
        let effort = if self.loaded.runs_whole { Effort::FULL } else { effort };
        let context = self.loaded.context;
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
        let scores = options.prompt_logprobs.map(|top| Box::new(PromptScores::new(top, &tokens)));
        let seed = options.sampling.seed_or_random();
        let handle = RequestHandle::new(Stats::new(tokens.len(), seed));
        let output = Output::new(sink, handle.clone(), options.stop.clone(), options.ignore_eos);
        let goal = Goal::text(DrawOptions::new(options, seed, host, constraint), output);
        let salt = self.loaded.salt(options.cache_salt);
        let mut sequence = Sequence::new(tokens, most, salt, options.deadline, goal, place);
        sequence.drafter = drafter;
        sequence.scores = scores;
        sequence.effort = effort;
        sequence.effort_in_prompt = options.effort_in_prompt || !sequence.generates();
        let sequence = sequence.with_loras(loras).of(options.client);
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
            Some(other) => self.tokens(other)?,
        };
        let vocab = self.loaded.plan.vocab;
        if let Some(&token) = prediction.iter().find(|&&token| token as usize >= vocab) {
            return Err(Error::UnknownToken { token, vocab });
        }
        // more than that cannot be generated
        prediction.truncate(self.loaded.context);
        if speculation == Speculation::Off || !self.loaded.rolls_back {
            return Ok(None);
        }
        Ok(Some(Box::new(LookupDrafter::new(speculation, tokens, prediction))))
    }

    /// Generates the text after a prompt, and returns its tokens as an iterator that waits for each.
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
        let Self { requests, loaded: _, shared, worker, device: _ } = self;
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
        Session::new(resources)
    }

    /// The outcome of the load: formats, bytes, context and device.
    pub fn summary(&self) -> Summary {
        let loaded = &self.loaded;
        Summary {
            name: summary::name_of(&loaded.checkpoint),
            formats: summary::formats(&loaded.checkpoint),
            weight_bytes: loaded.weight_bytes,
            kv_bytes: loaded.kv_bytes,
            context: loaded.context,
            longest_context: loaded.plan.context,
            device: self.device.to_string(),
        }
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

    /// The tokenizer, for a program that keeps it longer than the model. It needs the feature `unstable`.
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
    /// [load](LoadOptions::lora): the paths that were given there.
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
        self.loaded.context
    }

    fn send(&self, sequence: Sequence) -> Result<(), Error> {
        self.requests.send(Box::new(sequence)).map_err(|_| self.shared.error())?;
        self.shared.bound.inline_step.make_room();
        Ok(())
    }
}
