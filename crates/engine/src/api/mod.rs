//! The values that go into a model and come out of it.

mod cache_events;
mod client;
mod effort;
mod event;
mod generate;
mod handle;
mod load_options;
mod prompt;
mod source;
mod speculation;
mod status;
mod stream;
mod values;

pub(crate) use cache_events::CacheCallback;
pub use cache_events::{CacheEvent, CachedPage};
pub use client::Client;
pub use effort::{EffortLevel, EffortOptions, EffortTables, EffortUse};
pub use event::{Event, FinishReason, PromptToken, Stats, Token, TokenLogprob};
pub use generate::{GenerateOptions, LogitBias, LoraChoice, Trigger};
pub use handle::RequestHandle;
pub use load_options::{
    DraftSource, HostLayers, KvMemory, LoadGroup, LoadKind, LoadOption, LoadOptions, LoadProgress,
    Lora, MetadataChange, PlacementOptions, RopeOptions, RopeScaling,
};
pub(crate) use load_options::{ProgressCallback, ROWS_MAX, SEQUENCES_MAX};
pub use prompt::{Prompt, PromptImage};
pub use source::ModelSource;
pub use speculation::{Speculation, SpeculationStats};
pub use status::{PageCounts, Status};
pub use stream::{AsyncTokenStream, TokenStream};
pub(crate) use stream::{KeepAlive, channel};
pub use values::{EmbedOptions, Embedding, LogitRows, Pooling, RerankOptions, RerankQuery, Score};
