//! A language-model inference engine: a model file and a prompt in, text out.
//!
//! ```
//! use pelton::{Engine, LoadOptions, Request, Sampling};
//!
//! let model = Engine::new().load_built_in(&LoadOptions::default())?;
//! let request = Request::new("Once upon a time").max_tokens(16).sampling(Sampling::greedy());
//! let mut stream = model.generate(request)?;
//! for token in &mut stream {
//!     print!("{}", token?.text);
//! }
//! println!("\n{} tokens", stream.stats().generated_tokens);
//! # Ok::<(), pelton::Error>(())
//! ```
//!
//! An [`Engine`] loads a [`Model`] from a file. [`Model::submit`] is the primitive: it answers a
//! [`Request`] with [`Event`]s to a callback. [`Model::generate`] returns an iterator instead, and
//! [`Model::stream`] an asynchronous stream; dropping either cancels its request.
//!
//! Requests run together, as many as [`LoadOptions::sequences`] says: each pass has rows of all of
//! them (continuous batching). Their keys and values lie in pages; full pages stay cached for
//! later prompts with the same prefix. A request's text depends neither on the requests that run
//! at the same time nor on what is cached.
//!
//! A model that ends in pooling instead of logits answers [`Model::embed`], one that ends in a
//! classifier [`Model::rerank`]. Their texts run together in the same way.
//!
//! [`chat`] renders the messages of a conversation by the template of the model file, and parses
//! the reply: [`Model::chat`].
//!
//! Inside, imports go one way: `api` (values that go in and come out), `chat`, `kv` (pages),
//! `schedule` (the thread that runs passes), `session`, `model`, `engine`.

mod api;
mod built_in;
pub mod chat;
mod device;
mod engine;
mod error;
mod kv;
mod model;
mod schedule;
mod session;

pub use api::{
    AsyncTokenStream, Client, DraftSource, EffortLevel, EffortOptions, EffortTables, EmbedOptions,
    Embedding, Event, FinishReason, Flow, KvMemory, LoadOptions, PageCounts, Pooling, Prompt,
    PromptToken, Request, RequestHandle, RerankOptions, RerankQuery, Score, Speculation,
    SpeculationStats, Stats, Status, Token, TokenStream, Trigger,
};
pub use built_in::built_in;
pub use device::Device;
pub use engine::Engine;
pub use error::Error;
pub use model::{BucketFile, EffortFile, Model, SamplingDefaults, Summary};
pub use pelton_constraint::{Constraint, Error as ConstraintError};
pub use pelton_cpu::default_threads;
#[cfg(feature = "gpu")]
pub use pelton_gpu as gpu;
pub use pelton_graph::{self as graph, EffortMode, KvType};
pub use pelton_quant::BucketFormat;
pub use pelton_sampling::{OptionKind, SamplerKind, Sampling, SamplingOption};
pub use pelton_tokenizer::{self as tokenizer, Tokenizer};
pub use pelton_weights::{self as weights, Checkpoint};
pub use session::Session;

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
struct Library;
