//! The vector operations in AVX-512, with and without VNNI: 16 rows at a time.

use std::arch::x86_64::*;

use super::vectors::{Codes, Rows, Vectors};
use crate::simd::Zmm;

/// The 16 bytes of rows `i`, `i + 4`, `i + 8` and `i + 12`.
///
/// # Safety
/// They are readable, and AVX-512 F exists.
#[inline(always)]
unsafe fn every_fourth(from: Rows, i: usize) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe {
        let row = |row: usize| _mm_loadu_si128(from.first.add(row * from.stride).cast());
        let low = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(row(i)), row(i + 4));
        let high = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(row(i + 8)), row(i + 12));
        _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
    }
}

/// Bits `first` to `first + 3` of each lane, a byte of the lane for each.
///
/// # Safety
/// AVX-512 BW exists.
#[inline(always)]
unsafe fn four_bits(bits: __m512i, first: u32) -> __mmask64 {
    // SAFETY: the caller's promise.
    unsafe {
        // The byte that holds the four bits, four times; one of its bits in each.
        let lanes = _mm_setr_epi32(0, 0x0404_0404, 0x0808_0808, 0x0c0c_0c0c);
        let byte = _mm512_set1_epi8((first / 8) as i8);
        let from = _mm512_add_epi8(_mm512_broadcast_i32x4(lanes), byte);
        let each = _mm512_set1_epi32(0x0804_0201 << (first % 8));
        _mm512_test_epi8_mask(_mm512_shuffle_epi8(bits, from), each)
    }
}

impl<const VNNI: bool> Vectors for Zmm<VNNI> {
    /// VNNI takes codes unsigned, so signed ones are moved up by 128.
    const I8_ZERO: Option<u32> = if VNNI { Some(7) } else { None };
    const PANELS: usize = 2;
    type I = __m512i;
    type Magnitudes = ();

    #[inline(always)]
    unsafe fn splat_i(value: i32) -> __m512i {
        // SAFETY: the instructions exist, by the caller's promise; so below.
        unsafe { _mm512_set1_epi32(value) }
    }
    #[inline(always)]
    unsafe fn and(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_and_si512(a, b) }
    }
    #[inline(always)]
    unsafe fn or(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_or_si512(a, b) }
    }
    #[inline(always)]
    unsafe fn xor(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_xor_si512(a, b) }
    }
    #[inline(always)]
    unsafe fn sub_i(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_sub_epi32(a, b) }
    }
    #[inline(always)]
    unsafe fn add_i(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_add_epi32(a, b) }
    }
    #[inline(always)]
    unsafe fn shl(a: __m512i, bits: u32) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_sllv_epi32(a, _mm512_set1_epi32(bits as i32)) }
    }
    #[inline(always)]
    unsafe fn shr(a: __m512i, bits: u32) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_srlv_epi32(a, _mm512_set1_epi32(bits as i32)) }
    }
    #[inline(always)]
    unsafe fn sar(a: __m512i, bits: u32) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_srav_epi32(a, _mm512_set1_epi32(bits as i32)) }
    }

    #[inline(always)]
    unsafe fn to_f32(a: __m512i) -> __m512 {
        // SAFETY: as above.
        unsafe { _mm512_cvtepi32_ps(a) }
    }
    #[inline(always)]
    unsafe fn f32_of_bits(a: __m512i) -> __m512 {
        // SAFETY: as above.
        unsafe { _mm512_castsi512_ps(a) }
    }
    #[inline(always)]
    unsafe fn f16_to_f32(a: __m512i) -> __m512 {
        // SAFETY: as above.
        unsafe { _mm512_cvtph_ps(_mm512_cvtepi32_epi16(a)) }
    }

    #[inline(always)]
    unsafe fn f16_pairs(a: __m512i) -> [__m512; 2] {
        // SAFETY: as above.
        unsafe {
            // Lane i of the low half gets words 2i of both, of the high half words 2i + 1.
            let step = _mm512_set1_epi32(0x0004_0004);
            let mut halves = _mm512_set1_epi32(0x0002_0000);
            let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7);
            halves = _mm512_add_epi32(halves, _mm512_mullo_epi32(lanes, step));
            let odd = _mm512_maskz_set1_epi32(0xff00, 0x0001_0001);
            let sorted = _mm512_permutexvar_epi16(_mm512_add_epi32(halves, odd), a);
            [
                _mm512_cvtph_ps(_mm512_castsi512_si256(sorted)),
                _mm512_cvtph_ps(_mm512_extracti64x4_epi64::<1>(sorted)),
            ]
        }
    }

    #[inline(always)]
    unsafe fn load4(from: Rows) -> __m512i {
        // SAFETY: as above.
        unsafe {
            if from.packed > 0 {
                return _mm512_loadu_si512(from.first.cast());
            }
            let mut rows = [0_i32; 16];
            for (i, row) in rows.iter_mut().enumerate() {
                *row = from.first.add(i * from.stride).cast::<i32>().read_unaligned();
            }
            _mm512_loadu_si512(rows.as_ptr().cast())
        }
    }
    #[inline(always)]
    unsafe fn load16(from: Rows) -> [__m512i; 4] {
        // SAFETY: as above.
        unsafe {
            if from.packed > 0 {
                let from = from.first.cast::<__m512i>();
                return [
                    _mm512_loadu_si512(from),
                    _mm512_loadu_si512(from.add(1)),
                    _mm512_loadu_si512(from.add(2)),
                    _mm512_loadu_si512(from.add(3)),
                ];
            }
            // A 4 x 4 transposition within each quarter: rows 0 to 3 in the first, and so on.
            let (a, b) = (every_fourth(from, 0), every_fourth(from, 1));
            let (c, d) = (every_fourth(from, 2), every_fourth(from, 3));
            let (ab_low, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
            let (cd_low, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
            [
                _mm512_unpacklo_epi64(ab_low, cd_low),
                _mm512_unpackhi_epi64(ab_low, cd_low),
                _mm512_unpacklo_epi64(ab_high, cd_high),
                _mm512_unpackhi_epi64(ab_high, cd_high),
            ]
        }
    }

    #[inline(always)]
    unsafe fn load64(from: Rows) -> [__m512i; 16] {
        // SAFETY: as above.
        unsafe {
            let zero = _mm512_setzero_si512();
            let mut rows = [zero; 16];
            for (i, row) in rows.iter_mut().enumerate() {
                *row = _mm512_loadu_si512(from.first.add(i * from.stride).cast());
            }
            // Columns j, j + 4, j + 8 and j + 12 of rows 4g to 4g + 3 in the quarters of 4g + j.
            let mut fours = [zero; 16];
            for g in (0..16).step_by(4) {
                let (a, b, c, d) = (rows[g], rows[g + 1], rows[g + 2], rows[g + 3]);
                let (ab_low, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
                let (cd_low, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
                fours[g] = _mm512_unpacklo_epi64(ab_low, cd_low);
                fours[g + 1] = _mm512_unpackhi_epi64(ab_low, cd_low);
                fours[g + 2] = _mm512_unpacklo_epi64(ab_high, cd_high);
                fours[g + 3] = _mm512_unpackhi_epi64(ab_high, cd_high);
            }
            let mut words = [zero; 16];
            for j in 0..4 {
                let (a, b, c, d) = (fours[j], fours[j + 4], fours[j + 8], fours[j + 12]);
                let ab_even = _mm512_shuffle_i32x4::<0b10_00_10_00>(a, b);
                let ab_odd = _mm512_shuffle_i32x4::<0b11_01_11_01>(a, b);
                let cd_even = _mm512_shuffle_i32x4::<0b10_00_10_00>(c, d);
                let cd_odd = _mm512_shuffle_i32x4::<0b11_01_11_01>(c, d);
                words[j] = _mm512_shuffle_i32x4::<0b10_00_10_00>(ab_even, cd_even);
                words[j + 4] = _mm512_shuffle_i32x4::<0b10_00_10_00>(ab_odd, cd_odd);
                words[j + 8] = _mm512_shuffle_i32x4::<0b11_01_11_01>(ab_even, cd_even);
                words[j + 12] = _mm512_shuffle_i32x4::<0b11_01_11_01>(ab_odd, cd_odd);
            }
            words
        }
    }

    #[inline(always)]
    unsafe fn load_u8(from: *const u8) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast())) }
    }
    #[inline(always)]
    unsafe fn load_i8(from: *const u8) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_cvtepi8_epi32(_mm_loadu_si128(from.cast())) }
    }

    #[inline(always)]
    unsafe fn magnitudes(_: &[__m512i; 8]) {}
    #[inline(always)]
    unsafe fn from_i8(a: __m512i) -> __m512i {
        if VNNI {
            // SAFETY: as above.
            unsafe { _mm512_xor_si512(a, _mm512_set1_epi8(-128)) }
        } else {
            a
        }
    }
    #[inline(always)]
    unsafe fn lookup(table: &[i8; 16], index: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe {
            let table = _mm_loadu_si128(table.as_ptr().cast());
            _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), index)
        }
    }

    #[inline(always)]
    unsafe fn gather(table: *const u8, index: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_i32gather_epi32::<4>(index, table.cast()) }
    }
    #[inline(always)]
    unsafe fn gather_pairs(table: *const u8, index: __m512i) -> [__m512i; 2] {
        // SAFETY: as above.
        unsafe {
            let low = _mm512_castsi512_si256(index);
            let high = _mm512_extracti64x4_epi64::<1>(index);
            let low = _mm512_i32gather_epi64::<8>(low, table.cast());
            let high = _mm512_i32gather_epi64::<8>(high, table.cast());
            let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            let odd = _mm512_or_si512(even, _mm512_set1_epi32(1));
            [_mm512_permutex2var_epi32(low, even, high), _mm512_permutex2var_epi32(low, odd, high)]
        }
    }
    #[inline(always)]
    unsafe fn negate(codes: __m512i, bits: __m512i, first: u32) -> __m512i {
        // SAFETY: as above.
        unsafe {
            let negative = four_bits(bits, first);
            _mm512_mask_sub_epi8(codes, negative, _mm512_setzero_si512(), codes)
        }
    }
    #[inline(always)]
    unsafe fn fifth_bits(bits: __m512i, first: u32) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_maskz_mov_epi8(four_bits(bits, first), _mm512_set1_epi8(16)) }
    }

    #[inline(always)]
    unsafe fn offset(parts: &[i16; 2], zero: u32) -> __m512i {
        // SAFETY: as above; the parts are a word.
        unsafe {
            let parts = _mm512_set1_epi32(std::ptr::from_ref(parts).cast::<i32>().read_unaligned());
            _mm512_madd_epi16(parts, _mm512_set1_epi16(1 << zero))
        }
    }
    #[inline(always)]
    unsafe fn dot<const N: usize, const NR: usize, const MR: usize>(
        codes: Codes,
        weights: [*const __m512i; NR],
        x: [*const i8; MR],
        start: [__m512i; MR],
    ) -> [[__m512i; MR]; NR] {
        // SAFETY: as above.
        unsafe {
            if VNNI {
                dot_vnni::<N, NR, MR>(weights, x, start)
            } else {
                dot_pairs::<N, NR, MR>(codes, weights, x, start)
            }
        }
    }
}

/// Four activations in every lane.
///
/// # Safety
/// They are readable, and AVX-512 F exists.
#[inline(always)]
unsafe fn broadcast(x: *const i8) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe { _mm512_set1_epi32(x.cast::<i32>().read_unaligned()) }
}

/// # Safety
/// As for [`Vectors::dot`], with VNNI.
#[inline(always)]
unsafe fn dot_vnni<const N: usize, const NR: usize, const MR: usize>(
    weights: [*const __m512i; NR],
    x: [*const i8; MR],
    start: [__m512i; MR],
) -> [[__m512i; MR]; NR] {
    let mut sums = [start; NR];
    for i in 0..N {
        for r in 0..MR {
            // SAFETY: the caller's promise.
            unsafe {
                let x = broadcast(x[r].add(4 * i));
                for n in 0..NR {
                    sums[n][r] = _mm512_dpbusd_epi32(sums[n][r], *weights[n].add(i), x);
                }
            }
        }
    }
    sums
}

/// Bytes are multiplied in pairs into 16 bits, in which some of these pairs are added before
/// they are widened to 32: as many as surely fit.
///
/// # Safety
/// As for [`Vectors::dot`].
#[inline(always)]
unsafe fn dot_pairs<const N: usize, const NR: usize, const MR: usize>(
    codes: Codes,
    weights: [*const __m512i; NR],
    x: [*const i8; MR],
    start: [__m512i; MR],
) -> [[__m512i; MR]; NR] {
    let chunk = codes.pairs_in_i16().min(N);
    let mut sums = [start; NR];
    for first in (0..N).step_by(chunk) {
        // SAFETY: the caller's promise.
        unsafe {
            let ones = _mm512_set1_epi16(1);
            let mut pairs = [[_mm512_setzero_si512(); MR]; NR];
            for i in first..first + chunk {
                for r in 0..MR {
                    let x = broadcast(x[r].add(4 * i));
                    for n in 0..NR {
                        let weights = *weights[n].add(i);
                        let product = if codes.are_signed() {
                            // The sign goes to the activations, as only those may have one.
                            let negative = _mm512_movepi8_mask(weights);
                            let zero = _mm512_setzero_si512();
                            let x = _mm512_mask_sub_epi8(x, negative, zero, x);
                            _mm512_maddubs_epi16(_mm512_abs_epi8(weights), x)
                        } else {
                            _mm512_maddubs_epi16(weights, x)
                        };
                        pairs[n][r] = _mm512_add_epi16(pairs[n][r], product);
                    }
                }
            }
            for n in 0..NR {
                for r in 0..MR {
                    let wide = _mm512_madd_epi16(pairs[n][r], ones);
                    sums[n][r] = _mm512_add_epi32(sums[n][r], wide);
                }
            }
        }
    }
    sums
}
