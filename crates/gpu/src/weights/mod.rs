//! Weights on the GPU: their layout in planes, in lines or in sorted buckets, and their upload.

mod buckets;
mod input_major;
mod layout;
mod lines;
mod matrix;
mod shared;
mod source;
mod upload;

pub(crate) use buckets::{
    Buckets, CHUNK as BUCKET_CHUNK, LINE as BUCKET_LINE, TILE as BUCKET_TILE, buckets_of,
    has_buckets, is_partial,
};
pub(crate) use input_major::{InputMajor, lines_of};
pub(crate) use layout::Layout;
pub(crate) use lines::Lines;
pub(crate) use matrix::{Matrix, Shard};
pub(crate) use shared::{SharedMatrices, Sources};
pub(crate) use upload::{Weights, resident_bytes};
