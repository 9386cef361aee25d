//! The values that go into a model and come out of it.

mod client;
mod effort;
mod event;
mod handle;
mod options;
mod request;
mod speculation;
mod status;
mod stream;
mod values;

pub use client::Client;
pub use effort::{EffortLevel, EffortOptions, EffortTables};
pub use event::{Event, FinishReason, Flow, PromptToken, Stats, Token};
pub use handle::RequestHandle;
pub use options::{DraftSource, KvMemory, LoadOptions};
pub use request::{Prompt, Request, Trigger};
pub use speculation::{Speculation, SpeculationStats};
pub use status::{PageCounts, Status};
pub use stream::{AsyncTokenStream, TokenStream};
pub(crate) use stream::{KeepAlive, channel};
pub use values::{EmbedOptions, Embedding, Pooling, RerankOptions, RerankQuery, Score};
