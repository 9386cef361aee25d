//! The search for a block's scale, with or without a minimum: candidates are tried in lanes, and the one of the least
//! weighted squared error is taken.
//!
//! The weights follow `ggml-quants.c`: a value of large magnitude counts more. An importance, the mean square of a
//! matrix's input in that column, multiplies them.

mod affine;
mod proportional;
mod values;

pub(crate) use affine::{Affine, Search};
pub(crate) use proportional::{Anchor, scale_errors};
pub(crate) use values::{LANES, important, mean_square, nearest, part, squares};
