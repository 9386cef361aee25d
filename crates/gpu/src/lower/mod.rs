//! From the steps of a plan to dispatches: kernels, their buffers and their grids.

mod attention;
pub(crate) mod autotune;
mod bucket_sizes;
mod buckets;
pub(crate) mod buffers;
pub(crate) mod dispatch;
mod effort;
mod effort_sizes;
mod experts;
pub(crate) mod lowering;
mod matmul;
mod products;
mod prompt_matmul;
mod recurrent;
mod rows;
mod tiled_matmul;
pub(crate) mod timestamps;

pub(crate) use buffers::{Cache, Inputs, Scratch};
