//! Reading of model files into checkpoints: typed metadata and memory-mapped tensors.
//!
//! ```no_run
//! use pelton_weights::{Checkpoint, Keys, MAX_SIZE};
//!
//! let model = Checkpoint::open("model.gguf")?;
//! let keys = Keys::new(model.metadata())?;
//! let hidden = keys.size("embedding_length", MAX_SIZE)?;
//! println!("{}: {hidden} wide", keys.architecture());
//! let norm = model.require("output_norm.weight", &[hidden])?;
//! println!("{} in {} bytes", norm.dtype, norm.bytes.len());
//! # Ok::<(), pelton_weights::Error>(())
//! ```
//!
//! This crate parses all untrusted bytes of models. An inconsistent file is rejected with an
//! [`Error`] that names the file, the key or tensor, the value found and the value expected.
//! [`GgufWriter`] writes such files.

mod buckets;
mod checkpoint;
mod clip;
mod error;
mod folder;
mod foreign;
mod ggml;
mod gguf;
mod hf;
mod interleaved;
mod keys;
mod lora;
mod map;
mod metadata;
pub mod patterns;
mod quantize;
mod read;
mod value;
mod value_type;
mod vision;
mod whisper;

pub use buckets::{BUCKETS_ARCHITECTURE, BUCKETS_MODEL, BucketPart, bucket_tensor};
pub use bytes::Bytes;
pub use checkpoint::{Checkpoint, Source, Tensor};
pub use error::{Error, Problem};
pub use gguf::{GgufBody, GgufWriter};
pub use interleaved::interleaves_heads;
pub use keys::{Keys, MAX_SIZE};
pub use lora::{Lora, LoraMatrix, LoraTensors};
pub use map::MappedFiles;
pub use metadata::Metadata;
pub use pelton_quant::DType;
pub use quantize::{Conversion, Importance, ImportanceSums, Quantize};
pub use value::{Array, Value};
pub use value_type::ValueType;
pub use vision::VisionSettings;
