//! The product of one row with a tile of codes in eight bits.
//!
//! A rank of an input has 32 different values, 16 levels of each sign. So with AVX-512 the products with its
//! codes are computed once, and looked up in registers; in general they are computed for each code.

use half::f16;
use pelton_quant::LEVEL_BUCKET;
#[cfg(target_arch = "x86_64")]
use pelton_quant::LEVELS;

use super::multiply::Tile;
use super::pack::{BUCKET_OUTPUTS, LANES, NUMBERS};
#[cfg(target_arch = "x86_64")]
use crate::isa::InstructionSet;
use crate::isa::Isa;
use crate::simd::{Body, Simd, dispatch};

/// The levels, as factors of the step.
#[cfg(target_arch = "x86_64")]
const FACTORS: [f32; LEVELS] =
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0];

/// A tile, the levels of its inputs `[cols, 16]`, and the sums of its outputs.
pub(super) struct LevelTile<'a> {
    pub(super) tile: Tile<'a>,
    pub(super) levels: &'a [f16],
    pub(super) sums: &'a mut [f32; BUCKET_OUTPUTS],
}

impl LevelTile<'_> {
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

impl Body for LevelTile<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        /// A bit of each of eight codes.
        const EACH: u64 = 0x0101_0101_0101_0101;
        let mut sums = [0.0; BUCKET_OUTPUTS];
        let levels: &[[f16; NUMBERS]] = self.levels.as_chunks().0;
        let (mut numbers, mut products) = ([0.0; NUMBERS], [0.0; LANES]);
        for (i, entry) in self.tile.entries.iter().enumerate() {
            self.tile.prefetch(i);
            simd.store(simd.load_f16(&levels[entry.input as usize]), &mut numbers);
            let x = simd.splat(entry.x);
            for (rank, words) in self.tile.words(entry).iter().enumerate() {
                let base = simd.splat(numbers[rank % LEVEL_BUCKET]);
                // the bits of a level are eight times it
                let step = simd.splat(numbers[LEVEL_BUCKET + rank % LEVEL_BUCKET] / 8.0);
                let words: [[u64; 2]; 2] = bytemuck::cast(words.map(u16::to_le));
                for (half, codes) in words.into_iter().enumerate() {
                    let of_levels = codes.map(|codes| codes & (0x78 * EACH));
                    let of_levels = simd.load_i8(&bytemuck::cast(of_levels));
                    // 1 or -1
                    let signs = codes.map(|codes| (codes >> 7 & EACH) * 0xfe | EACH);
                    let signs = simd.load_i8(&bytemuck::cast(signs));
                    let values = simd.add(base, simd.mul(step, of_levels));
                    simd.store(simd.mul(simd.mul(x, values), signs), &mut products);
                    let codes: [u8; LANES] = bytemuck::cast(codes);
                    for (lane, (code, product)) in codes.into_iter().zip(products).enumerate() {
                        let bucket = half * LANES + lane;
                        let output = bucket * LEVEL_BUCKET + usize::from(code) % LEVEL_BUCKET;
                        sums[output % BUCKET_OUTPUTS] += product;
                    }
                }
            }
        }
        *self.sums = sums;
    }
}

/// As the body of all instruction sets, with the products and the sums of each position in registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn avx512(LevelTile { tile, levels, sums: to }: LevelTile<'_>) {
    use std::arch::x86_64::*;
    // of the even buckets and of the odd ones
    let mut sums = [[_mm512_setzero_ps(); LEVEL_BUCKET]; 2];
    let levels: &[[f16; NUMBERS]] = levels.as_chunks().0;
    let mask = _mm512_set1_epi32(LEVEL_BUCKET as i32 - 1);
    // SAFETY: there are 16 factors.
    let factors = unsafe { _mm512_loadu_ps(FACTORS.as_ptr()) };
    let minus = _mm512_set1_ps(-1.0);
    let mut numbers = [0.0; NUMBERS];
    for (i, entry) in tile.entries.iter().enumerate() {
        tile.prefetch(i);
        let x = _mm512_set1_ps(entry.x);
        let of_input = &levels[entry.input as usize];
        // SAFETY: there are 16 numbers, and room for as many.
        unsafe {
            let of_input = _mm512_cvtph_ps(_mm256_loadu_si256(of_input.as_ptr().cast()));
            _mm512_storeu_ps(numbers.as_mut_ptr(), of_input);
        }
        for (rank, words) in tile.words(entry).iter().enumerate() {
            let base = _mm512_set1_ps(numbers[rank % LEVEL_BUCKET]);
            let step = _mm512_set1_ps(numbers[LEVEL_BUCKET + rank % LEVEL_BUCKET]);
            let plus = _mm512_mul_ps(x, _mm512_add_ps(base, _mm512_mul_ps(step, factors)));
            let negative = _mm512_mul_ps(plus, minus);
            // SAFETY: there are 16 words of 16 bits.
            let words = unsafe { _mm256_loadu_si256(words.as_ptr().cast()) };
            let words = _mm512_cvtepu16_epi32(words);
            for (codes, sums) in [words, _mm512_srli_epi32::<8>(words)].into_iter().zip(&mut sums) {
                // of an index five bits count: the sign, which chooses the table, and the level
                let index = _mm512_srli_epi32::<3>(codes);
                let product = _mm512_permutex2var_ps(plus, index, negative);
                let position = _mm512_and_si512(codes, mask);
                for (p, sum) in sums.iter_mut().enumerate() {
                    let is = _mm512_cmpeq_epi32_mask(position, _mm512_set1_epi32(p as i32));
                    *sum = _mm512_mask_add_ps(*sum, is, *sum, product);
                }
            }
        }
    }
    for (half, sums) in sums.into_iter().enumerate() {
        for (position, sum) in sums.into_iter().enumerate() {
            let mut lanes = [0.0; LANES];
            // SAFETY: there is room for 16 lanes.
            unsafe { _mm512_storeu_ps(lanes.as_mut_ptr(), sum) };
            for (lane, value) in lanes.into_iter().enumerate() {
                to[(2 * lane + half) * LEVEL_BUCKET + position] = value;
            }
        }
    }
}
