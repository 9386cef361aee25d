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
//! An [`Engine`] is a device. It loads a [`Model`] from a [`ModelSource`]: a file, a directory, or
//! the model within the library.
//!
//! [`Model::chat`] answers a conversation: the module [`chat`] has its parts. [`Model::generate`]
//! continues a text, and returns an iterator over its tokens. [`Model::stream`] returns an
//! asynchronous stream instead, and [`Model::submit`] calls a function for each [`Event`]. Dropping
//! a stream cancels its request.
//!
//! Requests run together, as many as [`LoadOptions::max_concurrent`] says: each pass has rows of
//! all of them (continuous batching). Their keys and values lie in pages; full pages stay cached
//! for later prompts with the same prefix. A request's text depends neither on the requests that
//! run at the same time nor on what is cached.
//!
//! A model that ends in pooling instead of logits answers [`Model::embed`], one that ends in a
//! classifier [`Model::rerank`]. Their texts run together in the same way.
//!
//! [`Engine::load_speech`] loads a model that recognizes speech, as Whisper. The module [`speech`]
//! has its values: audio, options, segments.
//!
//! The feature `unstable` adds the parts below: plans ([`graph`](https://docs.rs/pelton-graph)),
//! model files, backends and sequences that the caller runs by hand. They change in any version;
//! the items without it follow semantic versioning.
//!
//! Inside, imports go one way: `api` (values that go in and come out), `chat`, `kv`
//! (pages), `schedule` (the thread that runs passes), `session`, `placement` (the devices),
//! `model`, `speech`, `engine`.

#![cfg_attr(
    not(feature = "unstable"),
    allow(
        dead_code,
        unreachable_pub,
        unused_imports,
        reason = "parts that the feature alone makes public"
    )
)]

mod api;
mod built_in;
pub mod chat;
mod device;
mod engine;
mod error;
mod files;
mod kv;
mod metadata;
mod model;
mod placement;
mod results;
mod schedule;
mod session;
mod sources;
pub mod speech;
mod vision;

pub use api::{
    AsyncTokenStream, CacheEvent, CachedPage, Client, DraftSource, EffortLevel, EffortOptions,
    EffortTables, EffortUse, EmbedOptions, Embedding, Event, FinishReason, GenerateOptions,
    HostLayers, KvMemory, LoadGroup, LoadKind, LoadOption, LoadOptions, LoadProgress, LogitBias,
    LogitRows, Lora, LoraChoice, MetadataChange, ModelSource, PageCounts, PlacementOptions,
    Pooling, Prompt, PromptImage, PromptToken, RequestHandle, RerankOptions, RerankQuery,
    RopeOptions, RopeScaling, Score, Speculation, SpeculationStats, Stats, Status, Token,
    TokenLogprob, TokenStream, Trigger,
};
pub use device::Device;
pub use engine::{Engine, EngineBuilder};
pub use error::{Error, ErrorKind, Report};
pub use model::{Model, SamplingDefaults, Summary};
pub use pelton_constraint::{Constraint, Error as ConstraintError};
pub use pelton_cpu::default_threads;
pub use pelton_graph::{KvElement, KvType, Needs};
pub use pelton_image::Picture;
pub use pelton_place::{
    DeviceShare, FeedForwards, Placement, Prediction, PromptPrediction, Term as PredictionTerm,
};
pub use pelton_sampling::{OptionKind, SamplerKind, Sampling, SamplingOption};
pub use pelton_tokenizer::{Special, TokenType, Tokenizer};
pub use pelton_weights::Quantize;
pub use speech::{SpeechModel, SpeechOptions};

#[cfg(feature = "unstable")]
pub use self::{
    built_in::{built_in, built_in_speech, built_in_vision},
    model::{BucketFile, Outline, TowerOutline},
    session::Session,
};
#[cfg(feature = "unstable")]
pub use pelton_cpu as cpu;
#[cfg(all(feature = "gpu", feature = "unstable"))]
pub use pelton_gpu as gpu;
#[cfg(feature = "unstable")]
pub use pelton_graph as graph;
#[cfg(feature = "unstable")]
pub use pelton_place::Work;
#[cfg(feature = "unstable")]
pub use pelton_tokenizer as tokenizer;
#[cfg(feature = "unstable")]
pub use pelton_weights::{self as weights, Checkpoint};

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
struct Library;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/speech.md")]
struct Speech;
