//! The product of one row with the selected ranks of its inputs.

use std::ops::Range;

use pelton_quant::BucketFormat;

use super::float::FloatTile;
use super::levels::LevelTile;
use super::pack::{BUCKET_OUTPUTS, Buckets, LANES};
use super::select::{Entry, Selections};
use crate::gemm::Output;
use crate::isa::Isa;
use crate::memory::prefetch::{Level, prefetch};

/// Inputs between a prefetch and its use.
const LEAD: usize = 6;

/// Computes the outputs `outputs` of row `row` of a batch with its selection `selection`. Sums are in
/// the order of inputs and ranks, on every instruction set.
///
/// # Safety
/// During the call no other thread writes the selection or accesses the results of `outputs`; it has
/// been selected for this matrix.
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
        match matrix.format {
            BucketFormat::F16 => FloatTile { tile, sums: &mut sums }.multiply(isa),
            BucketFormat::Q8 => {
                LevelTile { tile, levels: &matrix.levels, sums: &mut sums }.multiply(isa);
            }
        }
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

/// The codes of one tile, and the entries that multiply them.
pub(super) struct Tile<'a> {
    /// `[cols, ranks, 16]`.
    codes: &'a [u16],
    ranks: usize,
    pub(super) entries: &'a [Entry],
}

impl Tile<'_> {
    /// The words of an entry, `[its ranks, 16]`.
    #[inline(always)]
    pub(super) fn words(&self, entry: &Entry) -> &[[u16; LANES]] {
        let of_input = self.ranks * LANES;
        let codes = &self.codes[entry.input as usize * of_input..][..of_input];
        &codes.as_chunks().0[..self.ranks.min(entry.ranks as usize)]
    }

    /// Prefetches the words of the entry some inputs after entry `i`.
    #[inline(always)]
    pub(super) fn prefetch(&self, i: usize) {
        if let Some(entry) = self.entries.get(i + LEAD) {
            for words in self.words(entry).iter().step_by(2) {
                prefetch(words.as_ptr().cast(), Level::First);
            }
        }
    }
}
