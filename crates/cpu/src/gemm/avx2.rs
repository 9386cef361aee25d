//! The vector operations in AVX2 with FMA and F16C, with and without AVX-VNNI: 8 rows at a time.

use std::arch::asm;
use std::arch::x86_64::*;
use std::ops::Range;

use super::vectors::{Codes, Rows, Vectors};
use crate::simd::Ymm;

/// The 16 bytes of rows `i` and `i + 4`.
///
/// # Safety
/// They are readable, and AVX2 exists.
#[inline(always)]
unsafe fn every_fourth(from: Rows, i: usize) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        let low = _mm_loadu_si128(from.first.add(i * from.stride).cast());
        let high = _mm_loadu_si128(from.first.add((i + 4) * from.stride).cast());
        _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high)
    }
}

/// The sums of lanes of 16 bits. In assembly, as the compiler would turn chains of sums into trees,
/// which need more registers than there are.
#[inline]
#[target_feature(enable = "avx2")]
fn add_i16(mut a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: the instruction exists, and changes nothing else.
    unsafe {
        asm!("vpaddw {a}, {a}, {b}", a = inout(ymm_reg) a, b = in(ymm_reg) b,
            options(pure, nomem, nostack, preserves_flags));
    }
    a
}

/// Ones in 16 bits, in a register: the compiler would read the constant from memory at every use,
/// which leaves fewer loads for the operands.
#[inline]
#[target_feature(enable = "avx2")]
fn ones() -> __m256i {
    let mut ones = _mm256_set1_epi16(1);
    // SAFETY: there is no instruction, only an operand that the compiler cannot know.
    unsafe {
        asm!("/* {ones} */", ones = inout(ymm_reg) ones,
            options(pure, nomem, nostack, preserves_flags));
    }
    ones
}

/// As [`add_i16`], of lanes of 32 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn add_i32(mut a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: as above.
    unsafe {
        asm!("vpaddd {a}, {a}, {b}", a = inout(ymm_reg) a, b = in(ymm_reg) b,
            options(pure, nomem, nostack, preserves_flags));
    }
    a
}

impl<const VNNI: bool> Vectors for Ymm<VNNI> {
    /// VNNI takes codes unsigned, so signed ones are moved up by 128.
    const I8_ZERO: Option<u32> = if VNNI { Some(7) } else { None };
    const PANELS: usize = 2;
    type I = __m256i;
    type Magnitudes = [__m256i; 8];

    #[inline(always)]
    unsafe fn splat_i(value: i32) -> __m256i {
        // SAFETY: the instructions exist, by the caller's promise; so below.
        unsafe { _mm256_set1_epi32(value) }
    }
    #[inline(always)]
    unsafe fn and(a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_and_si256(a, b) }
    }
    #[inline(always)]
    unsafe fn or(a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_or_si256(a, b) }
    }
    #[inline(always)]
    unsafe fn xor(a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_xor_si256(a, b) }
    }
    #[inline(always)]
    unsafe fn sub_i(a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_sub_epi32(a, b) }
    }
    #[inline(always)]
    unsafe fn add_i(a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_add_epi32(a, b) }
    }
    #[inline(always)]
    unsafe fn shl(a: __m256i, bits: u32) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_sllv_epi32(a, _mm256_set1_epi32(bits as i32)) }
    }
    #[inline(always)]
    unsafe fn shr(a: __m256i, bits: u32) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_srlv_epi32(a, _mm256_set1_epi32(bits as i32)) }
    }
    #[inline(always)]
    unsafe fn sar(a: __m256i, bits: u32) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_srav_epi32(a, _mm256_set1_epi32(bits as i32)) }
    }

    /// Four copies of the byte with a lane's bits, each compared with its own bit.
    #[inline(always)]
    unsafe fn fifth_bits(bits: __m256i, first: u32) -> __m256i {
        let byte = (first / 8) as i32;
        let own = if first.is_multiple_of(8) { 0x0804_0201 } else { 0x8040_2010_u32 as i32 };
        // SAFETY: as above; `first` is a multiple of 4.
        unsafe {
            let lanes = _mm_setr_epi32(0, 0x0404_0404, 0x0808_0808, 0x0c0c_0c0c);
            let from =
                _mm256_add_epi8(_mm256_broadcastsi128_si256(lanes), _mm256_set1_epi8(byte as i8));
            let own = _mm256_set1_epi32(own);
            let copies = _mm256_and_si256(_mm256_shuffle_epi8(bits, from), own);
            _mm256_and_si256(_mm256_cmpeq_epi8(copies, own), _mm256_set1_epi8(16))
        }
    }

    #[inline(always)]
    unsafe fn to_f32(a: __m256i) -> __m256 {
        // SAFETY: as above.
        unsafe { _mm256_cvtepi32_ps(a) }
    }
    #[inline(always)]
    unsafe fn f32_of_bits(a: __m256i) -> __m256 {
        // SAFETY: as above.
        unsafe { _mm256_castsi256_ps(a) }
    }
    #[inline(always)]
    unsafe fn f16_to_f32(a: __m256i) -> __m256 {
        // SAFETY: as above.
        unsafe {
            let low = _mm256_and_si256(a, _mm256_set1_epi32(0xffff));
            let packed = _mm256_packus_epi32(low, low);
            // Lanes 0 to 3 are in the first quarter, 4 to 7 in the third.
            let packed = _mm256_permute4x64_epi64::<0b00_00_10_00>(packed);
            _mm256_cvtph_ps(_mm256_castsi256_si128(packed))
        }
    }
    #[inline(always)]
    unsafe fn f16_pairs(a: __m256i) -> [__m256; 2] {
        // SAFETY: as above.
        unsafe {
            let halves = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
            let sorted = _mm256_shuffle_epi8(a, _mm256_broadcastsi128_si256(halves));
            let sorted = _mm256_permute4x64_epi64::<0b11_01_10_00>(sorted);
            [
                _mm256_cvtph_ps(_mm256_castsi256_si128(sorted)),
                _mm256_cvtph_ps(_mm256_extracti128_si256::<1>(sorted)),
            ]
        }
    }

    #[inline(always)]
    unsafe fn load4(from: Rows) -> __m256i {
        // SAFETY: as above.
        unsafe {
            if from.packed > 0 {
                return _mm256_loadu_si256(from.first.cast());
            }
            let mut rows = [0_i32; 8];
            for (i, row) in rows.iter_mut().enumerate() {
                *row = from.first.add(i * from.stride).cast::<i32>().read_unaligned();
            }
            _mm256_loadu_si256(rows.as_ptr().cast())
        }
    }
    #[inline(always)]
    unsafe fn load16(from: Rows) -> [__m256i; 4] {
        // SAFETY: as above.
        unsafe {
            if from.packed > 0 {
                let from = from.first.cast::<__m256i>();
                return [
                    _mm256_loadu_si256(from),
                    _mm256_loadu_si256(from.add(1)),
                    _mm256_loadu_si256(from.add(2)),
                    _mm256_loadu_si256(from.add(3)),
                ];
            }
            // A 4 x 4 transposition within each half: rows 0 to 3, and 4 to 7.
            let (a, b) = (every_fourth(from, 0), every_fourth(from, 1));
            let (c, d) = (every_fourth(from, 2), every_fourth(from, 3));
            let (ab_low, ab_high) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
            let (cd_low, cd_high) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
            [
                _mm256_unpacklo_epi64(ab_low, cd_low),
                _mm256_unpackhi_epi64(ab_low, cd_low),
                _mm256_unpacklo_epi64(ab_high, cd_high),
                _mm256_unpackhi_epi64(ab_high, cd_high),
            ]
        }
    }

    #[inline(always)]
    unsafe fn load_u8(from: *const u8) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_cvtepu8_epi32(_mm_loadl_epi64(from.cast())) }
    }
    #[inline(always)]
    unsafe fn load_i8(from: *const u8) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_cvtepi8_epi32(_mm_loadl_epi64(from.cast())) }
    }

    #[inline(always)]
    unsafe fn magnitudes(codes: &[__m256i; 8]) -> [__m256i; 8] {
        let mut magnitudes = *codes;
        if !VNNI {
            for magnitude in &mut magnitudes {
                // SAFETY: as above.
                *magnitude = unsafe { _mm256_abs_epi8(*magnitude) };
            }
        }
        magnitudes
    }
    #[inline(always)]
    unsafe fn from_i8(a: __m256i) -> __m256i {
        if VNNI {
            // SAFETY: as above.
            unsafe { _mm256_xor_si256(a, _mm256_set1_epi8(-128)) }
        } else {
            a
        }
    }
    #[inline(always)]
    unsafe fn lookup(table: &[i8; 16], index: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe {
            let table = _mm_loadu_si128(table.as_ptr().cast());
            _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), index)
        }
    }

    #[inline(always)]
    unsafe fn gather(table: *const u8, index: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_i32gather_epi32::<4>(table.cast(), index) }
    }
    #[inline(always)]
    unsafe fn gather_pairs(table: *const u8, index: __m256i) -> [__m256i; 2] {
        // SAFETY: as above.
        unsafe {
            let low = _mm256_castsi256_si128(index);
            let high = _mm256_extracti128_si256::<1>(index);
            let low = _mm256_i32gather_epi64::<8>(table.cast(), low);
            let high = _mm256_i32gather_epi64::<8>(table.cast(), high);
            let (low, high) = (_mm256_castsi256_ps(low), _mm256_castsi256_ps(high));
            // Rows 0, 1, 4, 5, and in the second half rows 2, 3, 6, 7.
            let first = _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(low, high));
            let second = _mm256_castps_si256(_mm256_shuffle_ps::<0b11_01_11_01>(low, high));
            [
                _mm256_permute4x64_epi64::<0b11_01_10_00>(first),
                _mm256_permute4x64_epi64::<0b11_01_10_00>(second),
            ]
        }
    }
    #[inline(always)]
    unsafe fn negate(codes: __m256i, bits: __m256i, first: u32) -> __m256i {
        // SAFETY: as above.
        unsafe {
            // The byte that holds the four bits, four times; one of its bits in each.
            let lanes = _mm_setr_epi32(0, 0x0404_0404, 0x0808_0808, 0x0c0c_0c0c);
            let byte = _mm256_set1_epi8((first / 8) as i8);
            let from = _mm256_add_epi8(_mm256_broadcastsi128_si256(lanes), byte);
            let each = _mm256_set1_epi32(0x0804_0201 << (first % 8));
            let found = _mm256_and_si256(_mm256_shuffle_epi8(bits, from), each);
            let negative = _mm256_cmpeq_epi8(found, each);
            _mm256_sub_epi8(_mm256_xor_si256(codes, negative), negative)
        }
    }

    #[inline(always)]
    unsafe fn offset(parts: &[i16; 2], zero: u32) -> __m256i {
        // SAFETY: as above; the parts are a word.
        unsafe {
            let parts = _mm256_set1_epi32(std::ptr::from_ref(parts).cast::<i32>().read_unaligned());
            _mm256_madd_epi16(parts, _mm256_set1_epi16(1 << zero))
        }
    }
    #[inline(always)]
    unsafe fn dot_from<const N: usize, const NR: usize, const MR: usize>(
        codes: Codes,
        zero: u32,
        weights: [*const __m256i; NR],
        x: [*const i8; MR],
        minus: [&[i16; 2]; MR],
    ) -> [[__m256i; MR]; NR] {
        // SAFETY: as above; the parts are a word, and as many products fit into 16 bits.
        unsafe {
            if !VNNI && !codes.are_signed() && codes.pairs_from(1 << zero) >= N {
                let mut start = [_mm256_setzero_si256(); MR];
                for (start, minus) in start.iter_mut().zip(minus) {
                    let minus = std::ptr::from_ref(minus).cast::<i32>().read_unaligned();
                    *start =
                        _mm256_mullo_epi16(_mm256_set1_epi32(minus), _mm256_set1_epi16(1 << zero));
                }
                let mut sums = sum_in_pairs::<NR, MR>(weights, x, 0..N, Some(start));
                for sum in sums.as_flattened_mut() {
                    *sum = _mm256_madd_epi16(*sum, _mm256_set1_epi16(1));
                }
                return sums;
            }
            let mut start = [_mm256_setzero_si256(); MR];
            for (start, minus) in start.iter_mut().zip(minus) {
                *start = Self::offset(minus, zero);
            }
            Self::dot::<N, NR, MR>(codes, weights, x, start)
        }
    }
    #[inline(always)]
    unsafe fn dot<const N: usize, const NR: usize, const MR: usize>(
        codes: Codes,
        weights: [*const __m256i; NR],
        x: [*const i8; MR],
        start: [__m256i; MR],
    ) -> [[__m256i; MR]; NR] {
        // SAFETY: as above.
        unsafe {
            if VNNI {
                dot_vnni::<N, NR, MR>(weights, x, start)
            } else if codes.are_signed() {
                let in_tile = codes == Codes::I8InTile;
                dot_signed::<N, NR, MR>(in_tile, weights, x, start)
            } else {
                dot_unsigned::<N, NR, MR>(codes, weights, x, start)
            }
        }
    }
}

/// # Safety
/// As for [`Vectors::dot`], with AVX-VNNI.
#[inline(always)]
unsafe fn dot_vnni<const N: usize, const NR: usize, const MR: usize>(
    weights: [*const __m256i; NR],
    x: [*const i8; MR],
    start: [__m256i; MR],
) -> [[__m256i; MR]; NR] {
    let mut sums = [start; NR];
    for i in 0..N {
        for r in 0..MR {
            // SAFETY: the caller's promise.
            unsafe {
                let x = _mm256_set1_epi32(x[r].add(4 * i).cast::<i32>().read_unaligned());
                for n in 0..NR {
                    sums[n][r] = _mm256_dpbusd_avx_epi32(sums[n][r], *weights[n].add(i), x);
                }
            }
        }
    }
    sums
}

/// Products of unsigned bytes with signed ones, added in pairs to `start`, if there is one, in 16
/// bits. Sums in between may overflow, but the last one fits.
///
/// # Safety
/// As for [`Vectors::dot`].
#[inline(always)]
unsafe fn sum_in_pairs<const NR: usize, const MR: usize>(
    weights: [*const __m256i; NR],
    x: [*const i8; MR],
    columns: Range<usize>,
    start: Option<[__m256i; MR]>,
) -> [[__m256i; MR]; NR] {
    // SAFETY: the caller's promise.
    unsafe {
        let first = columns.start;
        let mut sums = [start.unwrap_or([_mm256_setzero_si256(); MR]); NR];
        for i in columns {
            for r in 0..MR {
                let x = _mm256_set1_epi32(x[r].add(4 * i).cast::<i32>().read_unaligned());
                for n in 0..NR {
                    let product = _mm256_maddubs_epi16(*weights[n].add(i), x);
                    sums[n][r] = if start.is_none() && i == first {
                        product
                    } else if NR * MR == 1 {
                        _mm256_add_epi16(sums[n][r], product)
                    } else {
                        add_i16(sums[n][r], product)
                    };
                }
            }
        }
        sums
    }
}

/// The products of codes that are unsigned, in 16 bits as far as they surely fit.
///
/// # Safety
/// As for [`Vectors::dot`].
#[inline(always)]
unsafe fn dot_unsigned<const N: usize, const NR: usize, const MR: usize>(
    codes: Codes,
    weights: [*const __m256i; NR],
    x: [*const i8; MR],
    start: [__m256i; MR],
) -> [[__m256i; MR]; NR] {
    let chunk = codes.pairs_in_i16().min(N);
    let mut sums = [start; NR];
    for first in (0..N).step_by(chunk) {
        // SAFETY: as above.
        unsafe {
            let pairs = sum_in_pairs::<NR, MR>(weights, x, first..first + chunk, None);
            for (sum, pairs) in sums.as_flattened_mut().iter_mut().zip(pairs.as_flattened()) {
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(*pairs, _mm256_set1_epi16(1)));
            }
        }
    }
    sums
}

/// The products of signed codes, whose sign goes to the activations, as only those may have one:
/// two of them fill 16 bits.
///
/// # Safety
/// As for [`Vectors::dot`].
#[inline(always)]
unsafe fn dot_signed<const N: usize, const NR: usize, const MR: usize>(
    in_tile: bool,
    weights: [*const __m256i; NR],
    x: [*const i8; MR],
    start: [__m256i; MR],
) -> [[__m256i; MR]; NR] {
    let mut sums = [start; NR];
    // SAFETY: the caller's promise.
    unsafe {
        let ones = ones();
        for i in 0..N {
            for r in 0..MR {
                let x = _mm256_set1_epi32(x[r].add(4 * i).cast::<i32>().read_unaligned());
                for n in 0..NR {
                    let x = _mm256_sign_epi8(x, *weights[n].add(i));
                    let magnitudes = if in_tile {
                        *weights[n].add(8 + i)
                    } else {
                        _mm256_abs_epi8(*weights[n].add(i))
                    };
                    let product = _mm256_maddubs_epi16(magnitudes, x);
                    let product = _mm256_madd_epi16(product, ones);
                    sums[n][r] = if NR * MR == 1 {
                        _mm256_add_epi32(sums[n][r], product)
                    } else {
                        add_i32(sums[n][r], product)
                    };
                }
            }
        }
    }
    sums
}
