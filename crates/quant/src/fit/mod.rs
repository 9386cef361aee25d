//! The search for a block's scale, with or without a minimum: candidates are tried in lanes, and
//! the one of the least weighted squared error is taken.
//!
//! The weights follow `ggml-quants.c`: a value of large magnitude counts more. An importance, the
//! mean square of a matrix's input in that column, multiplies them.

mod affine;
mod levels;
mod proportional;
#[expect(clippy::needless_range_loop, reason = "a loop over lanes reads several arrays")]
mod sub_blocks;
mod values;

pub(crate) use affine::{Affine, Search};
pub(crate) use levels::{Integers, Levels};
pub(crate) use proportional::Anchor;
pub(crate) use sub_blocks::{Ends, Scaled, SubBlocks};
pub(crate) use values::{important, mean_square, nearest, part, squares};
