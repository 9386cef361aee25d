//! The vector operations on lines in AVX2 and AVX-512.

use std::arch::x86_64::*;

use super::lines::{Lines, add_interleaved};
use crate::simd::{Ymm, Zmm};

impl<const VNNI: bool> Lines for Ymm<VNNI> {
    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m256i {
        // SAFETY: the instructions exist, by the caller's promise; so below.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }
    #[inline(always)]
    unsafe fn interleave([a, b, c, d]: [__m256i; 4]) -> [__m256i; 4] {
        // SAFETY: as above.
        unsafe {
            let (ab, cd) = (_mm256_unpacklo_epi8(a, b), _mm256_unpacklo_epi8(c, d));
            let (ab_high, cd_high) = (_mm256_unpackhi_epi8(a, b), _mm256_unpackhi_epi8(c, d));
            [
                _mm256_unpacklo_epi16(ab, cd),
                _mm256_unpackhi_epi16(ab, cd),
                _mm256_unpacklo_epi16(ab_high, cd_high),
                _mm256_unpackhi_epi16(ab_high, cd_high),
            ]
        }
    }

    // without VNNI pairs of products are sums of 16 bits, of outputs in the order that two lines
    // have
    const SUMS_OF_NIBBLES: usize = if VNNI { 8 } else { 4 };
    #[inline(always)]
    unsafe fn start_of_nibbles(minus: i32) -> __m256i {
        // SAFETY: as above.
        unsafe {
            match VNNI {
                true => _mm256_set1_epi32(minus << 3),
                false => _mm256_set1_epi16((minus << 3) as i16),
            }
        }
    }
    #[inline(always)]
    unsafe fn add_nibbles(lines: [__m256i; 4], x: &[i8; 4], sums: &mut [__m256i; 8]) {
        // SAFETY: as above.
        unsafe {
            if VNNI {
                return add_interleaved::<Self>(lines, x, sums);
            }
            let mask = _mm256_set1_epi8(15);
            for (lines, x) in lines.as_chunks::<2>().0.iter().zip(x.as_chunks::<2>().0) {
                let x = _mm256_set1_epi16(i16::from_le_bytes(x.map(|x| x as u8)));
                let [a, b] = *lines;
                let both = [_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b)];
                for (k, both) in both.into_iter().enumerate() {
                    let low = _mm256_maddubs_epi16(_mm256_and_si256(both, mask), x);
                    let high = _mm256_and_si256(_mm256_srli_epi16(both, 4), mask);
                    let high = _mm256_maddubs_epi16(high, x);
                    sums[k] = _mm256_add_epi16(sums[k], low);
                    sums[2 + k] = _mm256_add_epi16(sums[2 + k], high);
                }
            }
        }
    }
    #[inline(always)]
    unsafe fn widen_nibbles(sums: [__m256i; 8]) -> [__m256i; 8] {
        if VNNI {
            return sums;
        }
        // SAFETY: as above.
        unsafe {
            let mut wide = sums;
            for (i, wide) in wide.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                let zero = _mm256_setzero_si256();
                let (low, high) =
                    (_mm256_unpacklo_epi16(zero, sums[i]), _mm256_unpackhi_epi16(zero, sums[i]));
                *wide = [_mm256_srai_epi32::<16>(low), _mm256_srai_epi32::<16>(high)];
            }
            wide
        }
    }
}

impl<const VNNI: bool> Lines for Zmm<VNNI> {
    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }
    #[inline(always)]
    unsafe fn interleave([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
        // SAFETY: as above.
        unsafe {
            let (ab, cd) = (_mm512_unpacklo_epi8(a, b), _mm512_unpacklo_epi8(c, d));
            let (ab_high, cd_high) = (_mm512_unpackhi_epi8(a, b), _mm512_unpackhi_epi8(c, d));
            [
                _mm512_unpacklo_epi16(ab, cd),
                _mm512_unpackhi_epi16(ab, cd),
                _mm512_unpacklo_epi16(ab_high, cd_high),
                _mm512_unpackhi_epi16(ab_high, cd_high),
            ]
        }
    }
}
