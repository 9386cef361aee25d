//! The product of one row with the selected ranks of its inputs.

use std::ops::Range;

use half::f16;

use super::pack::{BUCKET_OUTPUTS, Buckets, LANES};
use super::select::{Entry, Selections};
use crate::gemm::Output;
#[cfg(target_arch = "x86_64")]
use crate::isa::InstructionSet;
use crate::isa::Isa;
use crate::memory::prefetch::{Level, prefetch};
use crate::simd::{Body, Simd, dispatch};

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
        let tile = Tile { codes, ranks: matrix.ranks, entries, sums: &mut sums };
        match isa.set() {
            // SAFETY: the instructions exist.
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 | InstructionSet::Avx512Vnni => unsafe { avx512(tile) },
            _ => dispatch(isa, tile),
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

/// The product with one tile.
struct Tile<'a> {
    /// `[cols, ranks, 16]`.
    codes: &'a [u16],
    ranks: usize,
    entries: &'a [Entry],
    sums: &'a mut [f32; BUCKET_OUTPUTS],
}

impl Tile<'_> {
    /// The codes of an entry, `[its ranks, 16]`.
    #[inline(always)]
    fn codes(&self, entry: &Entry) -> &[[u16; LANES]] {
        let of_input = self.ranks * LANES;
        let codes = &self.codes[entry.input as usize * of_input..][..of_input];
        &codes.as_chunks().0[..self.ranks.min(entry.ranks as usize)]
    }

    /// Prefetches the codes of the entry some inputs after entry `i`.
    #[inline(always)]
    fn prefetch(&self, i: usize) {
        if let Some(entry) = self.entries.get(i + LEAD) {
            for codes in self.codes(entry).iter().step_by(2) {
                prefetch(codes.as_ptr().cast(), Level::First);
            }
        }
    }
}

impl Body for Tile<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let mut sums = [0.0; BUCKET_OUTPUTS];
        let mut products = [0.0; LANES];
        for (i, entry) in self.entries.iter().enumerate() {
            self.prefetch(i);
            let x = simd.splat(entry.x);
            for codes in self.codes(entry) {
                let weights = simd.load_f16(&codes.map(f16::from_bits));
                simd.store(simd.mul(weights, x), &mut products);
                for (lane, (&code, product)) in codes.iter().zip(products).enumerate() {
                    sums[(lane * LANES + usize::from(code) % LANES) % BUCKET_OUTPUTS] += product;
                }
            }
        }
        *self.sums = sums;
    }
}

/// As the body of all instruction sets, with the sums of each position in a register.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn avx512(tile: Tile<'_>) {
    use std::arch::x86_64::*;
    let mut sums = [_mm512_setzero_ps(); LANES];
    let mask = _mm512_set1_epi32(LANES as i32 - 1);
    for (i, entry) in tile.entries.iter().enumerate() {
        tile.prefetch(i);
        let x = _mm512_set1_ps(entry.x);
        for codes in tile.codes(entry) {
            // SAFETY: there are 16 codes of 16 bits.
            let codes = unsafe { _mm256_loadu_si256(codes.as_ptr().cast()) };
            let product = _mm512_mul_ps(_mm512_cvtph_ps(codes), x);
            let position = _mm512_and_si512(_mm512_cvtepu16_epi32(codes), mask);
            for (p, sum) in sums.iter_mut().enumerate() {
                let is = _mm512_cmpeq_epi32_mask(position, _mm512_set1_epi32(p as i32));
                *sum = _mm512_mask_add_ps(*sum, is, *sum, product);
            }
        }
    }
    for (position, sum) in sums.into_iter().enumerate() {
        let mut lanes = [0.0; LANES];
        // SAFETY: there is room for 16 lanes.
        unsafe { _mm512_storeu_ps(lanes.as_mut_ptr(), sum) };
        for (lane, value) in lanes.into_iter().enumerate() {
            tile.sums[lane * LANES + position] = value;
        }
    }
}
