//! Weights on the GPU: their layout in planes or in lines, and their upload.
//!
//! Threads repack blocks into a ring of staging buffers while the GPU empties the others. The
//! file's map is read once. The GPU holds one copy of each weight, and of marked ones a second in
//! another order. A matrix whose planes exceed a binding is cut into shards by rows.

mod input_major;
mod input_major_layout;
mod layout;
mod matrix;
mod ring;
mod shards;
mod shared;
mod source;
mod stream;
mod upload;

pub(crate) use input_major::{groups_of, input_major_layout_of, places};
pub(crate) use input_major_layout::{InputMajorLayout, LANES, OUTPUTS, WORDS};
pub(crate) use layout::Layout;
pub(crate) use matrix::{Matrix, Shard};
pub(crate) use ring::STAGING_BYTES;
pub(crate) use shared::{SharedMatrices, Sources};
pub(crate) use stream::Stream;
pub(crate) use upload::{Weights, effort_bytes, resident_bytes, shared_bytes, streamed_bytes};
