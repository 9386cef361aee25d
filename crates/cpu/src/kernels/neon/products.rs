//! Products of bytes on Arm, in the three ways that processors have.
//!
//! Codes are signed bytes or below 64, and the latter are signed bytes too: the products of
//! unsigned with signed ones (`usdot`) have no use here.
//!
//! Rust 1.95 has no stable function for `sdot` and `smmla` (`stdarch_neon_dotprod`,
//! `stdarch_neon_i8mm`), hence the assembly.

use std::arch::aarch64::*;
use std::arch::asm;

use super::super::simd::{Codes, Simd};
use super::super::tile::Rows;
use super::{Neon, Pair};

type Vector = Pair<int32x4_t>;

/// How codes lie in vectors, and how they are multiplied: the functions of [`Simd`].
pub(in super::super) trait Products: Copy + 'static {
    /// # Safety
    /// As for [`Simd::load_codes`].
    #[inline(always)]
    unsafe fn load_codes(from: Rows) -> [Vector; 4] {
        // SAFETY: the caller's promise.
        unsafe { Neon::<Self>::load16(from) }
    }

    /// # Safety
    /// NEON exists.
    #[inline(always)]
    unsafe fn fifth_bits(bits: Vector, first: u32) -> Vector {
        // The byte of each row that holds its four bits, four times; one of them in each.
        const LANES: [u32; 4] = [0, 0x0404_0404, 0x0808_0808, 0x0c0c_0c0c];
        // SAFETY: the caller's promise; there are four.
        unsafe {
            let lanes = vreinterpretq_u8_u32(vld1q_u32(LANES.as_ptr()));
            let from = vaddq_u8(lanes, vdupq_n_u8((first / 8) as u8));
            let each = vreinterpretq_u8_u32(vdupq_n_u32(0x0804_0201 << (first % 8)));
            [found(bits[0], from, each), found(bits[1], from, each)]
        }
    }

    /// # Safety
    /// As for [`Simd::dot`].
    unsafe fn dot<const N: usize, const NR: usize, const MR: usize>(
        codes: Codes,
        weights: [*const Vector; NR],
        x: [*const i8; MR],
        start: [Vector; MR],
    ) -> [[Vector; MR]; NR];
}

/// 16 in each byte for which byte `from` of `bits` has the bit of `each`, else 0.
///
/// # Safety
/// NEON exists.
#[inline(always)]
unsafe fn found(bits: int32x4_t, from: uint8x16_t, each: uint8x16_t) -> int32x4_t {
    // SAFETY: the caller's promise.
    unsafe {
        let found = vtstq_u8(vqtbl1q_u8(vreinterpretq_u8_s32(bits), from), each);
        vreinterpretq_s32_u8(vandq_u8(found, vdupq_n_u8(16)))
    }
}

/// Bytes are multiplied into 16 bits, in which some products are added before they are widened
/// to 32 in pairs: as many as surely fit.
#[derive(Clone, Copy)]
pub(in super::super) struct Widening;

impl Products for Widening {
    #[inline(always)]
    unsafe fn dot<const N: usize, const NR: usize, const MR: usize>(
        codes: Codes,
        weights: [*const Vector; NR],
        x: [*const i8; MR],
        start: [Vector; MR],
    ) -> [[Vector; MR]; NR] {
        let chunk = codes.pairs_in_i16().min(N);
        let mut sums = [start; NR];
        for first in (0..N).step_by(chunk) {
            // SAFETY: the caller's promise.
            unsafe {
                // Of rows 0 and 1, 2 and 3, and so on: a product for each of four columns.
                let mut products = [[[vdupq_n_s16(0); 4]; MR]; NR];
                for i in first..first + chunk {
                    for r in 0..MR {
                        let x = x[r].add(4 * i).cast::<i32>().read_unaligned();
                        let x = vreinterpret_s8_s32(vdup_n_s32(x));
                        for n in 0..NR {
                            let [a, b] = *weights[n].add(i);
                            let (a, b) = (vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b));
                            let to = &mut products[n][r];
                            to[0] = vmlal_s8(to[0], vget_low_s8(a), x);
                            to[1] = vmlal_s8(to[1], vget_high_s8(a), x);
                            to[2] = vmlal_s8(to[2], vget_low_s8(b), x);
                            to[3] = vmlal_s8(to[3], vget_high_s8(b), x);
                        }
                    }
                }
                for n in 0..NR {
                    for r in 0..MR {
                        let ([a, b, c, d], sum) = (products[n][r], &mut sums[n][r]);
                        sum[0] = vpadalq_s16(sum[0], vpaddq_s16(a, b));
                        sum[1] = vpadalq_s16(sum[1], vpaddq_s16(c, d));
                    }
                }
            }
        }
        sums
    }
}

/// `sdot`: in each lane, four products with four activations that are the same for all.
#[derive(Clone, Copy)]
pub(in super::super) struct DotProd;

impl Products for DotProd {
    #[inline(always)]
    unsafe fn dot<const N: usize, const NR: usize, const MR: usize>(
        _: Codes,
        weights: [*const Vector; NR],
        x: [*const i8; MR],
        start: [Vector; MR],
    ) -> [[Vector; MR]; NR] {
        let mut sums = [start; NR];
        for first in (0..N).step_by(4) {
            // SAFETY: the caller's promise; `N` is a multiple of 4.
            unsafe {
                let mut sixteen = [vdupq_n_s8(0); MR];
                for (sixteen, x) in sixteen.iter_mut().zip(x) {
                    *sixteen = vld1q_s8(x.add(4 * first));
                }
                let weights = weights.map(|weights| weights.add(first));
                four_columns::<0, NR, MR>(weights, &sixteen, &mut sums);
                four_columns::<1, NR, MR>(weights, &sixteen, &mut sums);
                four_columns::<2, NR, MR>(weights, &sixteen, &mut sums);
                four_columns::<3, NR, MR>(weights, &sixteen, &mut sums);
            }
        }
        sums
    }
}

/// Adds the products of vector `I` of four with activations `4 I` to `4 I + 3` of sixteen.
///
/// # Safety
/// The vectors are readable, and `sdot` exists.
#[inline(always)]
unsafe fn four_columns<const I: usize, const NR: usize, const MR: usize>(
    weights: [*const Vector; NR],
    x: &[int8x16_t; MR],
    sums: &mut [[Vector; MR]; NR],
) {
    for (sums, weights) in sums.iter_mut().zip(weights) {
        // SAFETY: the caller's promise.
        unsafe {
            let weights = *weights.add(I);
            for (sum, x) in sums.iter_mut().zip(x) {
                sum[0] = sdot::<I>(sum[0], weights[0], *x);
                sum[1] = sdot::<I>(sum[1], weights[1], *x);
            }
        }
    }
}

/// `vdotq_laneq_s32`.
#[inline]
#[target_feature(enable = "dotprod")]
fn sdot<const LANE: usize>(mut sum: int32x4_t, a: int32x4_t, b: int8x16_t) -> int32x4_t {
    // SAFETY: the instruction exists, and changes one register only.
    unsafe {
        asm!(
            "sdot {sum:v}.4s, {a:v}.16b, {b:v}.4b[{lane}]",
            sum = inout(vreg) sum,
            a = in(vreg) a,
            b = in(vreg) b,
            lane = const LANE,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}

/// `smmla`: two rows of eight columns with two rows of eight activations, four sums of eight
/// products in one instruction.
///
/// So a register of codes holds eight columns of two rows; of the four vectors for 16 columns
/// the first two hold 8 columns of all rows.
#[derive(Clone, Copy)]
pub(in super::super) struct I8mm;

impl Products for I8mm {
    #[inline(always)]
    unsafe fn load_codes(from: Rows) -> [Vector; 4] {
        // SAFETY: the caller's promise; there are eight rows.
        unsafe {
            let mut codes = [[vdupq_n_s32(0); 2]; 4];
            for pair in 0..4 {
                let a = from.first.add(2 * pair * from.stride);
                let b = vreinterpretq_s64_u8(vld1q_u8(a.add(from.stride)));
                let a = vreinterpretq_s64_u8(vld1q_u8(a));
                codes[pair / 2][pair % 2] = vreinterpretq_s32_s64(vzip1q_s64(a, b));
                codes[2 + pair / 2][pair % 2] = vreinterpretq_s32_s64(vzip2q_s64(a, b));
            }
            codes
        }
    }

    #[inline(always)]
    unsafe fn fifth_bits(bits: Vector, first: u32) -> Vector {
        // The byte of a row that holds its eight bits, eight times; one of them in each.
        const EACH: u64 = 0x8040_2010_0804_0201;
        let bits = bits[first as usize / 4 % 2];
        let byte = (first / 8) as u8;
        // SAFETY: the caller's promise.
        unsafe {
            let each = vreinterpretq_u8_u64(vdupq_n_u64(EACH));
            let [a, b, c, d] = [0, 4, 8, 12].map(|row| vdup_n_u8(row + byte));
            [found(bits, vcombine_u8(a, b), each), found(bits, vcombine_u8(c, d), each)]
        }
    }

    #[inline(always)]
    unsafe fn dot<const N: usize, const NR: usize, const MR: usize>(
        _: Codes,
        weights: [*const Vector; NR],
        x: [*const i8; MR],
        start: [Vector; MR],
    ) -> [[Vector; MR]; NR] {
        let mut sums = [start; NR];
        for r in (0..MR).step_by(2) {
            // A last row of activations without a partner is its own.
            let next = (r + 1).min(MR - 1);
            // SAFETY: the caller's promise; `N` is even.
            unsafe {
                let (a, b) = (start[r], start[next]);
                // Of rows w and w', activations x and x': the sums wx, wx', w'x and w'x'.
                let mut squares = [[
                    vzip1q_s32(a[0], b[0]),
                    vzip2q_s32(a[0], b[0]),
                    vzip1q_s32(a[1], b[1]),
                    vzip2q_s32(a[1], b[1]),
                ]; NR];
                for i in (0..N).step_by(2) {
                    let x = vcombine_s8(vld1_s8(x[r].add(4 * i)), vld1_s8(x[next].add(4 * i)));
                    for (squares, weights) in squares.iter_mut().zip(weights) {
                        let ([a, b], [c, d]) = (*weights.add(i), *weights.add(i + 1));
                        squares[0] = smmla(squares[0], a, x);
                        squares[1] = smmla(squares[1], b, x);
                        squares[2] = smmla(squares[2], c, x);
                        squares[3] = smmla(squares[3], d, x);
                    }
                }
                for (sums, [a, b, c, d]) in sums.iter_mut().zip(squares) {
                    sums[next] = [vuzp2q_s32(a, b), vuzp2q_s32(c, d)];
                    sums[r] = [vuzp1q_s32(a, b), vuzp1q_s32(c, d)];
                }
            }
        }
        sums
    }
}

/// `vmmlaq_s32`.
#[inline]
#[target_feature(enable = "i8mm")]
fn smmla(mut sum: int32x4_t, a: int32x4_t, b: int8x16_t) -> int32x4_t {
    // SAFETY: the instruction exists, and changes one register only.
    unsafe {
        asm!(
            "smmla {sum:v}.4s, {a:v}.16b, {b:v}.16b",
            sum = inout(vreg) sum,
            a = in(vreg) a,
            b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}
