//! A plan of elementary ops as a test case.

use pelton_graph::{BufferId, KvType};
use pelton_quant::DType;

use super::builder::Builder;

/// Widths of f32 rows: below, at and above the multiples of vectors, tiles and workgroups.
pub(super) const WIDTHS: [usize; 5] = [6, 33, 50, 96, 257];
pub(super) const HEAD_DIMS: [usize; 5] = [6, 24, 80, 128, 256];

/// A plan of elementary ops, and the fused ops that it can become.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) builder: Builder,
    /// The names of the fused ops.
    pub(super) fused: &'static [&'static str],
    pub(super) kv: KvType,
    /// The greatest difference from the reference, relative to its norm.
    pub(super) tolerance: f32,
}

/// The tolerance of sums in f32.
pub(super) const EXACT: f32 = 1e-4;

/// The tolerance of products with weights of a type. A kernel may round activations to f16 next to
/// weights in 16 bits, and to 8 bits next to weights in blocks.
pub(super) fn tolerance(dtype: DType) -> f32 {
    match dtype {
        DType::F32 => EXACT,
        DType::F16 | DType::BF16 => 2e-3,
        _ => 2e-2,
    }
}

pub(super) fn case(
    name: String,
    builder: Builder,
    x: BufferId,
    fused: &'static [&'static str],
) -> Case {
    Case { name, builder: builder.finish(x), fused, kv: KvType::F32, tolerance: EXACT }
}

/// The least multiple of a type's blocks from `width` on.
pub(super) fn whole_blocks(dtype: DType, width: usize) -> usize {
    match dtype.block_len() {
        1 => width,
        block => width.next_multiple_of(block),
    }
}
