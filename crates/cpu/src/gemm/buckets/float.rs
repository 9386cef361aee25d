//! The product of one row with a tile of codes in f16.

use half::f16;

use super::pack::{BUCKET_OUTPUTS, LANES};
use super::tile::Tile;
#[cfg(target_arch = "x86_64")]
use crate::isa::InstructionSet;
use crate::isa::Isa;
use crate::simd::{Body, Simd, dispatch};

/// A tile, and the sums of its outputs.
pub(super) struct FloatTile<'a> {
    pub(super) tile: Tile<'a>,
    pub(super) sums: &'a mut [f32; BUCKET_OUTPUTS],
}

impl FloatTile<'_> {
    /// Computes the sums, the same on every instruction set.
    pub(super) fn multiply(self, isa: Isa) {
        match isa.set() {
            // SAFETY: the instructions exist.
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 | InstructionSet::Avx512Vnni => unsafe { avx512(self) },
            _ => dispatch(isa, self),
        }
    }
}

impl Body for FloatTile<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let mut sums = [0.0; BUCKET_OUTPUTS];
        let mut products = [0.0; LANES];
        for (i, entry) in self.tile.entries.iter().enumerate() {
            self.tile.prefetch(i);
            let x = simd.splat(entry.x);
            for codes in self.tile.words(entry) {
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
unsafe fn avx512(FloatTile { tile, sums: to }: FloatTile<'_>) {
    use std::arch::x86_64::*;
    let mut sums = [_mm512_setzero_ps(); LANES];
    let mask = _mm512_set1_epi32(LANES as i32 - 1);
    for (i, entry) in tile.entries.iter().enumerate() {
        tile.prefetch(i);
        let x = _mm512_set1_ps(entry.x);
        for codes in tile.words(entry) {
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
            to[lane * LANES + position] = value;
        }
    }
}
