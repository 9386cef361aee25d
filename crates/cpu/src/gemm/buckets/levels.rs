//! The product of one row with a tile of codes in eight bits.
//!
//! A rank of an input has 32 different values, 16 levels of each sign. So the products with its codes are
//! computed once, and looked up; but with AVX2, which has no such look-up, for each code.

use half::f16;
use pelton_quant::{LEVEL_BUCKET, LEVELS};

#[cfg(target_arch = "x86_64")]
use super::pack::LANES;
use super::pack::{BUCKET_OUTPUTS, NUMBERS};
use super::tile::Tile;
#[cfg(target_arch = "x86_64")]
use crate::isa::InstructionSet;
use crate::isa::Isa;
use crate::simd::{Body, Simd, dispatch};

/// The levels, as factors of the step.
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
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 | InstructionSet::AvxVnni => unsafe { avx2(self) },
            _ => dispatch(isa, self),
        }
    }
}

impl Body for LevelTile<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let mut sums = [0.0; BUCKET_OUTPUTS];
        let levels: &[[f16; NUMBERS]] = self.levels.as_chunks().0;
        let (mut numbers, mut products) = ([0.0; NUMBERS], [[0.0; LEVELS]; 2]);
        let (factors, minus) = (simd.load(&FACTORS), simd.splat(-1.0));
        for (i, entry) in self.tile.entries.iter().enumerate() {
            self.tile.prefetch(i);
            simd.store(simd.load_f16(&levels[entry.input as usize]), &mut numbers);
            let x = simd.splat(entry.x);
            for (rank, words) in self.tile.words(entry).iter().enumerate() {
                let base = simd.splat(numbers[rank % LEVEL_BUCKET]);
                let step = simd.splat(numbers[LEVEL_BUCKET + rank % LEVEL_BUCKET]);
                let plus = simd.mul(x, simd.add(base, simd.mul(step, factors)));
                simd.store(plus, &mut products[0]);
                simd.store(simd.mul(plus, minus), &mut products[1]);
                for (lane, word) in words.iter().enumerate() {
                    for (half, code) in word.to_le_bytes().into_iter().enumerate() {
                        let code = usize::from(code);
                        let product = products[code >> 7][code / LEVEL_BUCKET % LEVELS];
                        let output = (2 * lane + half) * LEVEL_BUCKET + code % LEVEL_BUCKET;
                        sums[output % BUCKET_OUTPUTS] += product;
                    }
                }
            }
        }
        *self.sums = sums;
    }
}

/// As the body of all instruction sets, with the sums of eight buckets at a time in registers: of some
/// entries, whose codes the first eight buckets leave in the cache for the others.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
unsafe fn avx2(LevelTile { tile, levels, sums: to }: LevelTile<'_>) {
    use std::arch::x86_64::*;
    /// Buckets of a register.
    const BUCKETS: usize = 8;
    /// Entries between two changes of the buckets.
    const ENTRIES: usize = 32;
    let mut all = [[_mm256_setzero_ps(); LEVEL_BUCKET]; BUCKET_OUTPUTS / LEVEL_BUCKET / BUCKETS];
    let levels: &[[f16; NUMBERS]] = levels.as_chunks().0;
    let (mask, level_mask) = (_mm256_set1_epi32(7), _mm256_set1_epi32(15));
    let sign = _mm256_set1_epi32(i32::MIN);
    for first in (0..tile.entries.len()).step_by(ENTRIES) {
        let entries = &tile.entries[first..tile.entries.len().min(first + ENTRIES)];
        for (group, sums) in all.iter_mut().enumerate() {
            let mut kept = *sums;
            for (i, entry) in entries.iter().enumerate() {
                if group == 0 {
                    tile.prefetch(first + i);
                }
                let x = _mm256_set1_ps(entry.x);
                let of_input = levels[entry.input as usize].as_ptr();
                let mut numbers = [0.0; NUMBERS];
                // SAFETY: there are 16 numbers, and room for as many.
                unsafe {
                    for half in [0, LEVEL_BUCKET] {
                        let of_half = _mm_loadu_si128(of_input.add(half).cast());
                        _mm256_storeu_ps(numbers.as_mut_ptr().add(half), _mm256_cvtph_ps(of_half));
                    }
                }
                for (rank, words) in tile.words(entry).iter().enumerate() {
                    let base = _mm256_set1_ps(numbers[rank % LEVEL_BUCKET]);
                    let step = _mm256_set1_ps(numbers[LEVEL_BUCKET + rank % LEVEL_BUCKET]);
                    // SAFETY: there are 32 codes, of which these eight are the group's.
                    let codes = unsafe {
                        let codes = words.as_ptr().cast::<u8>().add(group * BUCKETS);
                        _mm256_cvtepu8_epi32(_mm_loadl_epi64(codes.cast()))
                    };
                    let of_levels = _mm256_and_si256(_mm256_srli_epi32::<3>(codes), level_mask);
                    let of_levels = _mm256_mul_ps(step, _mm256_cvtepi32_ps(of_levels));
                    let product = _mm256_mul_ps(x, _mm256_add_ps(base, of_levels));
                    let negative = _mm256_and_si256(_mm256_slli_epi32::<24>(codes), sign);
                    let product = _mm256_xor_ps(product, _mm256_castsi256_ps(negative));
                    let position = _mm256_and_si256(codes, mask);
                    for (p, sum) in kept.iter_mut().enumerate() {
                        let is = _mm256_cmpeq_epi32(position, _mm256_set1_epi32(p as i32));
                        let of_position = _mm256_and_ps(product, _mm256_castsi256_ps(is));
                        // a sum is never -0, which 0 would change
                        *sum = _mm256_add_ps(*sum, of_position);
                    }
                }
            }
            *sums = kept;
        }
    }
    for (group, sums) in all.into_iter().enumerate() {
        for (position, sum) in sums.into_iter().enumerate() {
            let mut lanes = [0.0; BUCKETS];
            // SAFETY: there is room for 8 lanes.
            unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), sum) };
            for (lane, value) in lanes.into_iter().enumerate() {
                to[(group * BUCKETS + lane) * LEVEL_BUCKET + position] = value;
            }
        }
    }
}

/// As the body of all instruction sets, with the products and all sums of each position in registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn avx512(LevelTile { tile, levels, sums: to }: LevelTile<'_>) {
    use std::arch::x86_64::*;
    // the even buckets and the odd ones
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
                // five bits of an index count: the sign, which chooses the table, and the level
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
