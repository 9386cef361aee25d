//! Reading of model files into checkpoints: typed hyper-parameters and memory-mapped tensors.
//!
//! ```no_run
//! use pelton_weights::Checkpoint;
//!
//! let model = Checkpoint::open("model.gguf")?;
//! let shape = model.hyper_parameters()?;
//! println!("{}: {} layers", shape.architecture, shape.layers);
//! let embedding = model.require("token_embd.weight", &[shape.hidden, shape.vocab])?;
//! println!("{} in {} bytes", embedding.dtype, embedding.bytes.len());
//! # Ok::<(), pelton_weights::Error>(())
//! ```
//!
//! This crate parses all untrusted bytes of models. An inconsistent file is rejected with an
//! [`Error`] that names the file, the key or tensor, the value found and the value expected.
//! [`GgufWriter`] writes such files.

mod checkpoint;
mod error;
mod gguf;
mod hf;
mod hyper;
mod keys;
mod map;
mod metadata;
mod rope;
mod value;
mod value_type;

pub use bytes::Bytes;
pub use checkpoint::{Checkpoint, Source, Tensor};
pub use error::{Error, Problem};
pub use gguf::{GgufBody, GgufWriter};
pub use hyper::HyperParameters;
pub use metadata::Metadata;
pub use rope::{Rope, RopeScaling};
pub use value::{Array, Value};
pub use value_type::ValueType;
