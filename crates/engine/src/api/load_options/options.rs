//! The sizes that a model is loaded for.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use pelton_graph::KvType;
use pelton_weights::Quantize;

use super::{
    metadata::{MetadataChange, RopeOptions},
    placement::{HostLayers, PlacementOptions},
};
use crate::api::{
    cache_events::{CacheCallback, CacheEvent},
    effort::EffortOptions,
    source::ModelSource,
    speculation::Speculation,
    values::Pooling,
};

/// The memory for keys and values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum KvMemory {
    /// Enough for all sequences at full length if the free memory allows that, or else what it
    /// allows.
    #[default]
    Auto,
    /// This many bytes. Memory that running sequences do not need holds the prefixes of earlier
    /// ones.
    Bytes(u64),
    /// This share of the memory that is free at load, above 0 and up to 1.
    ShareOfFree(f32),
}

/// A small model that drafts tokens for another one.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum DraftSource {
    /// Another model.
    Model(ModelSource),
    /// The head of the model's file that predicts further tokens (multi-token prediction: `nextn`
    /// tensors).
    Head,
}

/// The sizes that a model is loaded for. A model allocates nothing of its own size afterwards.
///
/// ```
/// use pelton::{KvMemory, LoadOptions};
///
/// let options = LoadOptions::default().context(32_768).max_concurrent(8);
/// let options = options.kv_memory(KvMemory::Bytes(1 << 30));
/// assert_eq!(options.max_concurrent, Some(8));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LoadOptions {
    /// The most tokens of a prompt and its answer; `None` for the model's own, but at most 4,096.
    pub context: Option<usize>,
    /// Whether the context adapts to the model and the machine. `None` is then the model's own, as
    /// far as half of the free memory holds its keys and values. A context longer than the model's
    /// is cut to that instead of refused.
    pub fit_context: bool,
    /// The most requests that run at the same time; `None` for 1, or 32 of a model of embeddings or
    /// scores.
    pub max_concurrent: Option<usize>,
    /// The most rows of one pass: tokens of prompts that are run together. `None` for 512, or up to
    /// 2,048 on a GPU with matrix cores and enough memory. If the model's texts are run as a whole
    /// and the context is longer, `None` is for the context, up to 16,384.
    pub rows: Option<usize>,
    /// The pooling of embeddings. `None` is for the one that the file states. An encoder whose file
    /// states none is refused.
    pub pooling: Option<Pooling>,
    /// LoRA adapters with their scales; see [`lora`](Self::lora).
    pub loras: Vec<Lora>,
    /// The formats to which matrices of F32, F16 and BF16 are converted; `None` for their own.
    pub quantize: Option<Quantize>,
    /// Values in place of those of the model's metadata.
    pub metadata: Vec<MetadataChange>,
    /// The rotations in place of those of the model's files.
    pub rope: RopeOptions,
    /// The element type of keys and values.
    pub kv: KvType,
    /// The memory for keys and values.
    pub kv_memory: KvMemory,
    /// The devices of the layers.
    pub placement: PlacementOptions,
    /// The most requests that wait for their start.
    pub queue_requests: usize,
    /// The most prompt tokens of the requests that wait.
    pub queue_tokens: usize,
    /// The most time that one pass over prompts may take while other sequences decode.
    pub prefill_budget: Duration,
    /// The time from a request's arrival to its first token that is aimed at while other sequences
    /// decode: a prompt that would be late gets longer passes, up to
    /// [`prefill_budget`](Self::prefill_budget).
    pub target_ttft: Duration,
    /// The time between two tokens that is aimed at while prompts are computed. Passes over prompts
    /// take what decoding leaves of it, or more where many decode and large passes are cheaper.
    pub target_tbt: Duration,
    /// Whether tokens are drafted, and verified several at a time.
    pub speculation: Speculation,
    /// The source of drafted tokens; `None` for the head of the model's file, if that has one and
    /// [`speculation`](Self::speculation) is not off.
    pub draft: Option<DraftSource>,
    /// Whether the model's vision tower is loaded, if it has one.
    pub pictures: bool,
    /// The file of the vision tower (mmproj); `None` for the one of the model's directory.
    pub tower: Option<PathBuf>,
    /// The most tokens of a picture; `None` for 4,096.
    pub picture_tokens: Option<usize>,
    /// The fewest tokens of a picture; `None` for those that the model's files say.
    pub picture_tokens_min: Option<usize>,
    /// Lets requests have any [effort](crate::GenerateOptions::effort); `None` if all have
    /// effort 1.
    pub effort: Option<EffortOptions>,
    progress: Option<ProgressCallback>,
    pub(crate) cache_events: Option<CacheCallback>,
}

/// A LoRA adapter of a load.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Lora {
    /// A GGUF file, or a directory that PEFT saved.
    pub path: PathBuf,
    /// A factor of the adapter's own scale, for requests that do not name their adapters.
    pub scale: f32,
}

/// The progress of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadProgress {
    /// Bytes of weights that are loaded.
    pub done: u64,
    /// Bytes of all weights.
    pub total: u64,
}

/// The function that receives the progress of a load.
#[derive(Clone)]
pub(crate) struct ProgressCallback(Arc<dyn Fn(LoadProgress) + Send + Sync>);

impl ProgressCallback {
    pub(crate) fn new(call: impl Fn(LoadProgress) + Send + Sync + 'static) -> Self {
        Self(Arc::new(call))
    }

    pub(crate) fn report(&self, done: u64, total: u64) {
        (self.0)(LoadProgress { done, total });
    }
}

impl fmt::Debug for ProgressCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProgressCallback")
    }
}

/// A function is equal to itself.
impl PartialEq for ProgressCallback {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            context: None,
            fit_context: false,
            max_concurrent: None,
            rows: None,
            pooling: None,
            loras: Vec::new(),
            quantize: None,
            metadata: Vec::new(),
            rope: RopeOptions::default(),
            kv: KvType::F16,
            kv_memory: KvMemory::Auto,
            placement: PlacementOptions::default(),
            queue_requests: 1024,
            queue_tokens: 1 << 20,
            prefill_budget: Duration::from_millis(100),
            target_ttft: Duration::from_millis(500),
            target_tbt: Duration::from_millis(25),
            speculation: Speculation::Auto,
            draft: None,
            pictures: true,
            tower: None,
            picture_tokens: None,
            picture_tokens_min: None,
            effort: None,
            progress: None,
            cache_events: None,
        }
    }
}

impl LoadOptions {
    /// Sets the tokens of a prompt and its answer.
    pub fn context(mut self, tokens: usize) -> Self {
        self.context = Some(tokens);
        self
    }

    /// Lets the [context](Self::fit_context) adapt to the model and the machine.
    pub fn fit_context(mut self) -> Self {
        self.fit_context = true;
        self
    }

    /// Sets the number of requests that run at the same time.
    pub fn max_concurrent(mut self, requests: usize) -> Self {
        self.max_concurrent = Some(requests);
        self
    }

    /// Sets the rows of one pass.
    pub fn rows(mut self, rows: usize) -> Self {
        self.rows = Some(rows);
        self
    }

    /// Adds a LoRA adapter: a GGUF file, or a directory that PEFT saved, for a model of the
    /// same kind. It holds for all requests that do not [name](crate::GenerateOptions::lora)
    /// their adapters. The scale multiplies the adapter's own, and with the scale 0 only
    /// requests that name it have it.
    pub fn lora(mut self, path: impl Into<PathBuf>, scale: f32) -> Self {
        self.loras.push(Lora { path: path.into(), scale });
        self
    }

    /// Sets the formats to which matrices of F32, F16 and BF16 are converted, in memory.
    pub fn quantize(mut self, to: Quantize) -> Self {
        self.quantize = Some(to);
        self
    }

    /// Adds a value in place of the model's own, such as `qwen3.context_length=int:131072`: see
    /// [`MetadataChange`].
    pub fn metadata(mut self, change: MetadataChange) -> Self {
        self.metadata.push(change);
        self
    }

    /// Sets the rotations in place of those of the model's files.
    pub fn rope(mut self, rope: RopeOptions) -> Self {
        self.rope = rope;
        self
    }

    /// Sets the pooling of embeddings.
    pub fn pooling(mut self, pooling: Pooling) -> Self {
        self.pooling = Some(pooling);
        self
    }

    /// Sets the element type of keys and values.
    pub fn kv(mut self, kv: KvType) -> Self {
        self.kv = kv;
        self
    }

    /// Sets the memory for keys and values.
    pub fn kv_memory(mut self, memory: KvMemory) -> Self {
        self.kv_memory = memory;
        self
    }

    /// Sets the number of layers on the GPU.
    pub fn gpu_layers(mut self, layers: usize) -> Self {
        self.placement.gpu_layers = Some(layers);
        self
    }

    /// Sets the layers whose experts stay in the memory of the CPU next to a GPU.
    pub fn host_experts(mut self, layers: HostLayers) -> Self {
        self.placement.host_experts = Some(layers);
        self
    }

    /// Sets the layers whose feed-forwards stay in the memory of the CPU next to a GPU.
    pub fn host_ffn(mut self, layers: HostLayers) -> Self {
        self.placement.host_ffn = Some(layers);
        self
    }

    /// Sets the length from which on prompts run with streamed weights.
    pub fn stream_from(mut self, tokens: usize) -> Self {
        self.placement.stream_from = Some(tokens);
        self
    }

    /// Sets the layers of each of several GPUs.
    pub fn split(mut self, layers: impl Into<Vec<usize>>) -> Self {
        self.placement.split = layers.into();
        self
    }

    /// Sets the most bytes of the GPU's memory that the choice of layers counts on.
    pub fn gpu_memory(mut self, bytes: u64) -> Self {
        self.placement.gpu_memory = Some(bytes);
        self
    }

    /// Sets the bytes of the GPU's memory that the choice of layers leaves free.
    pub fn gpu_margin(mut self, bytes: u64) -> Self {
        self.placement.gpu_margin = Some(bytes);
        self
    }

    /// Sets the number of requests that can wait.
    pub fn queue_requests(mut self, requests: usize) -> Self {
        self.queue_requests = requests;
        self
    }

    /// Sets the number of prompt tokens that can wait.
    pub fn queue_tokens(mut self, tokens: usize) -> Self {
        self.queue_tokens = tokens;
        self
    }

    /// Sets the most time of a pass over prompts while other sequences decode.
    pub fn prefill_budget(mut self, time: Duration) -> Self {
        self.prefill_budget = time;
        self
    }

    /// Sets the time to the first token that is aimed at.
    pub fn target_ttft(mut self, time: Duration) -> Self {
        self.target_ttft = time;
        self
    }

    /// Sets the time between tokens that is aimed at.
    pub fn target_tbt(mut self, time: Duration) -> Self {
        self.target_tbt = time;
        self
    }

    /// Sets whether tokens are drafted.
    pub fn speculation(mut self, speculation: Speculation) -> Self {
        self.speculation = speculation;
        self
    }

    /// Lets requests have any effort: [`EffortOptions`], or the effort of requests that do not say.
    pub fn effort(mut self, effort: impl Into<EffortOptions>) -> Self {
        self.effort = Some(effort.into());
        self
    }

    /// Sets whether the model's vision tower is loaded.
    pub fn pictures(mut self, loads: bool) -> Self {
        self.pictures = loads;
        self
    }

    /// Sets the file of the vision tower (mmproj).
    pub fn tower(mut self, file: impl Into<PathBuf>) -> Self {
        self.tower = Some(file.into());
        self
    }

    /// Sets the most tokens of a picture.
    pub fn picture_tokens(mut self, tokens: usize) -> Self {
        self.picture_tokens = Some(tokens);
        self
    }

    /// Sets the fewest tokens of a picture: a smaller picture is enlarged, where its model's family
    /// allows that.
    pub fn picture_tokens_min(mut self, tokens: usize) -> Self {
        self.picture_tokens_min = Some(tokens);
        self
    }

    /// Sets the model that drafts tokens.
    pub fn draft(mut self, model: impl Into<ModelSource>) -> Self {
        self.draft = Some(DraftSource::Model(model.into()));
        self
    }

    /// Lets the head of the model's file that predicts further tokens draft them; a load of a file
    /// without one fails.
    pub fn draft_head(mut self) -> Self {
        self.draft = Some(DraftSource::Head);
        self
    }

    /// Sets a function that is called now and then during a load, on the loading thread.
    pub fn progress(mut self, call: impl Fn(LoadProgress) + Send + Sync + 'static) -> Self {
        self.progress = Some(ProgressCallback::new(call));
        self
    }

    /// Sets a function that receives the changes of the cached prefixes, in the order of their
    /// times. It is called on the thread that runs the model, so it must not block.
    pub fn cache_events(mut self, call: impl Fn(Vec<CacheEvent>) + Send + Sync + 'static) -> Self {
        self.cache_events = Some(CacheCallback::new(call));
        self
    }

    /// Calls the function of the progress, if there is one.
    pub(crate) fn report(&self, done: u64, total: u64) {
        if let Some(call) = &self.progress {
            call.report(done, total);
        }
    }
}
