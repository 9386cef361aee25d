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
//! An [`Engine`] loads a [`Model`] from a file; a model answers a [`Request`] with a
//! [`TokenStream`]. Requests of several threads run together, as many as
//! [`LoadOptions::sequences`] says; dropping a stream cancels its request.

mod chain;
mod device;
mod engine;
mod error;
mod model;
mod pages;
mod request;
mod runner;
mod scheduler;
mod sequence;
mod stop;
mod stream;

pub use device::Device;
pub use engine::{Engine, built_in};
pub use error::Error;
pub use model::{LoadOptions, Model};
pub use pelton_cpu::default_threads;
#[cfg(feature = "gpu")]
pub use pelton_gpu as gpu;
pub use pelton_graph::{self as graph, KvType};
pub use pelton_sampling::Sampling;
pub use pelton_tokenizer::{self as tokenizer, Tokenizer};
pub use pelton_weights::{self as weights, Checkpoint};
pub use request::{Prompt, Request};
pub use runner::Session;
pub use stream::{FinishReason, Stats, Token, TokenStream};
