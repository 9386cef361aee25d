//! A language-model inference engine: a model file and a prompt in, text out.
//!
//! ```
//! use pelton::{Engine, LoadOptions, ModelSource, chat::{Event, Message}};
//!
//! let engine = Engine::builder().build()?;
//! let model = engine.load(ModelSource::BuiltIn, &LoadOptions::default())?;
//! for event in model.chat(&[Message::new("user", "What is 2 plus 3?")])? {
//!     if let Event::Content(text) = event? {
//!         print!("{text}");
//!     }
//! }
//! # Ok::<(), pelton::Error>(())
//! ```
//!
//! An [`Engine`] is a device. It loads a [`Model`] from a [`ModelSource`]: a file, a directory, or the
//! model within the library.
//!
//! [`Model::chat`] answers a conversation: the module [`chat`] has its parts. [`Model::generate`]
//! continues a text, and returns an iterator over its tokens. [`Model::stream`] returns an asynchronous
//! stream instead, and [`Model::submit`] calls a function for each [`Event`]. Dropping a stream cancels its
//! request.
//!
//! Requests run together, as many as [`LoadOptions::max_concurrent`] says: each pass has rows of all of
//! them (continuous batching). Their keys and values lie in pages; full pages stay cached for
//! later prompts with the same prefix. A request's text depends neither on the requests that run
//! at the same time nor on what is cached.
//!
//! A model that ends in pooling instead of logits answers [`Model::embed`], one that ends in a
//! classifier [`Model::rerank`]. Their texts run together in the same way.
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
    Embedding, Event, FinishReason, GenerateOptions, KvMemory, LoadOptions, LoadProgress,
    LogitBias, Lora, LoraChoice, ModelSource, PageCounts, Pooling, Prompt, PromptToken,
    RequestHandle, RerankOptions, RerankQuery, Score, Speculation, SpeculationStats, Stats, Status,
    Token, TokenLogprob, TokenStream, Trigger,
};
pub use built_in::built_in;
pub use device::Device;
pub use engine::{Engine, EngineBuilder};
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
