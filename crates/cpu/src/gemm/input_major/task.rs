//! A product in input-major order, and the parts of its matrix and of its results.

use std::ops::Range;

use super::super::activations::Activations;
use super::super::job::Output;
use super::coded::RUN;
use super::layout::InputMajor;
use super::live::LiveRows;

/// A product of some rows with a matrix in input-major order.
pub struct Task<'a> {
    /// The matrix.
    pub matrix: &'a InputMajor,
    /// The prepared activations of all rows.
    pub activations: &'a Activations,
    /// The rows.
    pub live: &'a [u32],
    /// Their live inputs, and the first row of them.
    pub lists: (&'a LiveRows, usize),
    /// The destination; row `r` of the batch goes to row `r` of it.
    pub output: Output<'a>,
}

/// The parts of slabs that hold some outputs: the slab's first byte, its outputs, its first output
/// and the range of outputs in it, the end of which is padded to a whole run.
pub(super) fn slabs(
    matrix: &InputMajor,
    outputs: Range<usize>,
) -> impl Iterator<Item = (*const u8, usize, usize, Range<usize>)> {
    let of_slab = matrix.slab;
    (outputs.start / of_slab..outputs.end.div_ceil(of_slab)).map(move |index| {
        let slab = matrix.slab(index);
        let first = outputs.start.max(slab.first) - slab.first;
        let end = (outputs.end - slab.first).min(slab.outputs).next_multiple_of(RUN);
        (matrix.bytes[slab.start..].as_ptr(), slab.outputs, slab.first, first..end)
    })
}

/// Writes the sums `[outputs]` of a row from output `first` on, as far as they are below `end`.
///
/// # Safety
/// No other thread accesses these results.
pub(super) unsafe fn store(
    output: &Output<'_>,
    row: usize,
    first: usize,
    end: usize,
    sums: &[f32],
) {
    let count = sums.len().min(end - first);
    let start = row * output.stride + first;
    // SAFETY: the caller's promise.
    let to = unsafe { output.values.slice_mut(start..start + count) };
    for (i, (to, sum)) in to.iter_mut().zip(sums).enumerate() {
        let sum = output.bias.map_or(*sum, |bias| sum + bias[first + i]);
        *to = if output.accumulate { *to + sum } else { sum };
    }
}
