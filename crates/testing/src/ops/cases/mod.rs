//! The plans: every op, alone and as part of each fused op, at odd shapes.

mod attentions;
mod elements;
mod encoders;
mod experts;
mod linears;
mod masks;
mod norms;
mod recurrent;

use pelton_graph::{BufferId, KvType};
use pelton_quant::DType;

use super::builder::Builder;

/// Widths of f32 rows: below, at and above the multiples of vectors, tiles and workgroups.
const WIDTHS: [usize; 5] = [6, 33, 50, 96, 257];
const HEAD_DIMS: [usize; 5] = [6, 24, 80, 128, 256];

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
const EXACT: f32 = 1e-4;

/// The tolerance of products with weights of a type: a kernel may round activations to f16 next to
/// weights in 16 bits, and to 8 bits next to weights in blocks.
fn tolerance(dtype: DType) -> f32 {
    match dtype {
        DType::F32 => EXACT,
        DType::F16 | DType::BF16 => 2e-3,
        _ => 2e-2,
    }
}

fn case(name: String, builder: Builder, x: BufferId, fused: &'static [&'static str]) -> Case {
    Case { name, builder: builder.finish(x), fused, kv: KvType::F32, tolerance: EXACT }
}

/// The least multiple of a type's blocks from `width` on.
fn whole_blocks(dtype: DType, width: usize) -> usize {
    match dtype.block_len() {
        1 => width,
        block => width.next_multiple_of(block),
    }
}

pub(super) fn all() -> Vec<Case> {
    [
        elements::cases(),
        norms::cases(),
        linears::cases(),
        linears::fused(),
        linears::parts(),
        experts::routes(),
        experts::products(),
        recurrent::cases(),
        attentions::ropes(),
        attentions::cases(),
        masks::cases(),
        encoders::cases(),
    ]
    .concat()
}
