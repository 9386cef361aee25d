//! The product of one row with the selected ranks of its inputs.

use std::ops::Range;

use super::float::FloatTile;
use super::pack::{BUCKET_OUTPUTS, Buckets, LANES};
use super::select::Selections;
use super::tile::Tile;
use crate::gemm::Output;
use crate::isa::Isa;

/// Computes the outputs `outputs` of row `row` of a batch with its selection `selection`. Sums are
/// in the order of inputs and ranks, on every instruction set.
///
/// # Safety
/// During the call no other thread writes the selection or accesses the results of `outputs`; it
/// has been selected for this matrix.
///
/// # Panics
/// If `outputs` reaches beyond the matrix, or begins at no multiple of [`BUCKET_OUTPUTS`].
pub unsafe fn multiply(
    isa: Isa,
    matrix: &Buckets,
    (selections, selection): (&Selections, usize),
    row: usize,
    outputs: Range<usize>,
    output: &Output<'_>,
) {
    assert!(outputs.end <= matrix.rows, "outputs beyond the matrix");
    assert!(outputs.is_empty() || outputs.start.is_multiple_of(BUCKET_OUTPUTS), "inside of a tile");
    // SAFETY: the caller's promise.
    let entries = unsafe { selections.row(selection) };
    let all: &[u16] = bytemuck::cast_slice(&matrix.codes);
    let of_tile = matrix.cols * matrix.ranks * LANES;
    for first in outputs.clone().step_by(BUCKET_OUTPUTS) {
        let codes = &all[first / BUCKET_OUTPUTS * of_tile..][..of_tile];
        let mut sums = [0.0; BUCKET_OUTPUTS];
        let tile = Tile { codes, ranks: matrix.ranks, entries };
        FloatTile { tile, sums: &mut sums }.multiply(isa);
        let count = BUCKET_OUTPUTS.min(outputs.end - first);
        let start = row * output.stride + first;
        // SAFETY: the caller's promise.
        let to = unsafe { output.values.slice_mut(start..start + count) };
        for (i, (to, sum)) in to.iter_mut().zip(sums).enumerate() {
            let sum = output.bias.map_or(sum, |bias| sum + bias[first + i]);
            *to = if output.accumulate { *to + sum } else { sum };
        }
    }
}
