//! Weights on the GPU: their layout in planes, in lines or in sorted buckets, and their upload.
//!
//! Threads repack blocks into a ring of staging buffers while the GPU empties the others. The
//! file's map is read once. The GPU holds one copy of each weight, and for effort a second in another order. A
//! matrix whose planes exceed a binding is cut into shards by rows.

mod buckets;
mod input_major;
mod layout;
mod lines;
mod matrix;
mod ring;
mod shards;
mod shared;
mod source;
mod stream;
mod upload;

pub(crate) use buckets::{
    Buckets, CHUNK as BUCKET_CHUNK, LINE as BUCKET_LINE, TILE as BUCKET_TILE, buckets_of,
    has_buckets, is_partial,
};
pub(crate) use input_major::{SIDES, groups_of, lines_of, places};
pub(crate) use layout::Layout;
pub(crate) use lines::{LANES, Lines};
pub(crate) use matrix::{Matrix, Shard};
pub(crate) use ring::STAGING_BYTES;
pub(crate) use shared::{SharedMatrices, Sources};
pub(crate) use stream::Stream;
pub(crate) use upload::{Weights, effort_bytes, resident_bytes, shared_bytes, streamed_bytes};
