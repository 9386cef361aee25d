//! Weights on the GPU: their layout in planes, and their upload.

mod layout;
mod shared;
mod source;
mod upload;

pub(crate) use layout::Layout;
pub(crate) use shared::SharedMatrices;
pub(crate) use upload::{Matrix, Shard, Weights, resident_bytes};
