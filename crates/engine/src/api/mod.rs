//! The values that go into a model and come out of it.

mod cache_events;
mod client;
mod effort;
mod event;
mod generate;
mod handle;
mod load_table;
mod load_values;
mod options;
mod placement;
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
pub use load_table::{LoadGroup, LoadKind, LoadOption};
pub(crate) use load_table::{ROWS_MAX, SEQUENCES_MAX};
pub(crate) use options::ProgressCallback;
pub use options::{DraftSource, KvMemory, LoadOptions, LoadProgress, Lora};
pub use placement::{HostLayers, PlacementOptions};
pub use prompt::Prompt;
pub use source::ModelSource;
pub use speculation::{Speculation, SpeculationStats};
pub use status::{PageCounts, Status};
pub use stream::{AsyncTokenStream, TokenStream};
pub(crate) use stream::{KeepAlive, channel};
pub use values::{EmbedOptions, Embedding, LogitRows, Pooling, RerankOptions, RerankQuery, Score};
