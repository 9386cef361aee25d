//! GGUF, the format of llama.cpp.
//!
//! Layout and limits follow the specification, `docs/gguf.md` in github.com/ggml-org/ggml:
//! a header, metadata, tensor descriptions, then the tensors' bytes from an aligned offset on.
//! All fields of a file are validated in this module.

pub(crate) mod cursor;
pub(crate) mod dtype;
mod experts;
mod header;
pub(crate) mod limits;
mod split;
mod tensors;
mod writer;

pub(crate) use experts::stacked;
pub(crate) use header::Shard;
pub(crate) use split::{Split, shard_path};
pub(crate) use tensors::{TensorEntry, checked_size};
pub use writer::{GgufBody, GgufWriter};
