//! Model files to checkpoints: typed hyper-parameters and named tensors over mmap.
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
//! All untrusted bytes are parsed here. A file that claims what it does not hold is refused
//! with an [`Error`] that names the file, the key or tensor, and what was expected.
//! [`GgufWriter`] writes such files.

mod checkpoint;
mod error;
mod gguf;
mod hyper;
mod metadata;
mod rope;
mod value;

pub use bytes::Bytes;
pub use checkpoint::{Checkpoint, Tensor};
pub use error::{Error, Problem};
pub use gguf::{GgufBody, GgufWriter};
pub use hyper::HyperParameters;
pub use metadata::Metadata;
pub use rope::{Rope, RopeScaling};
pub use value::{Array, Value, ValueType};
