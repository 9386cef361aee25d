//! Products of bytes on Arm, in three variants.
//!
//! Codes are signed bytes or below 64, and the latter are signed bytes too: the products of
//! unsigned with signed ones (`usdot`) have no use here.
//!
//! Rust 1.95 has no stable function for `sdot` and `smmla` (`stdarch_neon_dotprod`,
//! `stdarch_neon_i8mm`), hence the assembly.

use std::arch::aarch64::*;
use std::arch::asm;

use super::super::vectors::{Codes, Rows};
use super::registers::{self, Pair};

type Vector = Pair<int32x4_t>;

/// How codes lie in vectors, and how they are multiplied: the functions of
/// [`Vectors`](super::super::vectors::Vectors).
pub(in super::super) trait DotProducts: Copy + 'static {
    /// # Safety
    /// As for [`Vectors::load_codes`](super::super::vectors::Vectors::load_codes).
    #[inline(always)]
    unsafe fn load_codes(from: Rows) -> [Vector; 4] {
        // SAFETY: the caller's promise.
        unsafe { registers::load16(from) }
    }

    /// # Safety
    /// As for [`Vectors::order_codes`](super::super::vectors::Vectors::order_codes).
    #[inline(always)]
    unsafe fn order_codes(columns: [Vector; 2]) -> [Vector; 2] {
        columns
    }

    /// # Safety
    /// NEON exists.
    #[inline(always)]
    unsafe fn fifth_bits(bits: Vector, first: u32) -> Vector {
        // The first byte of each row, four times.
        const FROM: [u32; 4] = [0, 0x0404_0404, 0x0808_0808, 0x0c0c_0c0c];
        // SAFETY: the caller's promise; there are four.
        unsafe {
            let bits = registers::shr(bits, first);
            let from = vreinterpretq_u8_u32(vld1q_u32(FROM.as_ptr()));
            let up = vreinterpretq_s8_s32(vdupq_n_s32(i32::from_le_bytes([4, 3, 2, 1])));
            [fifth_bit(bits[0], from, up), fifth_bit(bits[1], from, up)]
        }
    }

    /// # Safety
    /// As for [`Vectors::dot`](super::super::vectors::Vectors::dot).
    unsafe fn dot<const N: usize, const NR: usize, const MR: usize>(
        codes: Codes,
        weights: [*const Vector; NR],
        x: [*const i8; MR],
        start: [Vector; MR],
    ) -> [[Vector; MR]; NR];
}

/// Bytes `from` of `bits`, moved `up` by some bits (or down), and nothing but bit 4 of that.
///
/// # Safety
/// NEON exists.
#[inline(always)]
unsafe fn fifth_bit(bits: int32x4_t, from: uint8x16_t, up: int8x16_t) -> int32x4_t {
    // SAFETY: the caller's promise.
    unsafe {
        let bytes = vqtbl1q_u8(vreinterpretq_u8_s32(bits), from);
        vreinterpretq_s32_u8(vandq_u8(vshlq_u8(bytes, up), vdupq_n_u8(16)))
    }
}

/// Bytes are multiplied into 16 bits, in which some products are added before they are widened
/// to 32 in pairs: as many as surely fit.
#[derive(Clone, Copy)]
pub(in super::super) struct Widening;

impl DotProducts for Widening {
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
                // A product for each of four columns of rows 0 and 1, 2 and 3, and so on.
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

impl DotProducts for DotProd {
    #[inline(always)]
    unsafe fn dot<const N: usize, const NR: usize, const MR: usize>(
        _: Codes,
        weights: [*const Vector; NR],
        x: [*const i8; MR],
        start: [Vector; MR],
    ) -> [[Vector; MR]; NR] {
        let mut sums = [start; NR];
        for i in (0..N).step_by(4) {
            // SAFETY: the caller's promise; `N` is a multiple of 4.
            unsafe {
                for n in 0..NR {
                    let [a, b, c, d] = *weights[n].add(i).cast::<[Vector; 4]>();
                    for r in 0..MR {
                        let x = vld1q_s8(x[r].add(4 * i));
                        let sum = &mut sums[n][r];
                        sum[0] = sdot(sum[0], [a[0], b[0], c[0], d[0]], x);
                        sum[1] = sdot(sum[1], [a[1], b[1], c[1], d[1]], x);
                    }
                }
            }
        }
        sums
    }
}

/// `sum` and the products of sixteen columns: four times `vdotq_laneq_s32`.
#[inline]
#[target_feature(enable = "dotprod")]
fn sdot(mut sum: int32x4_t, weights: [int32x4_t; 4], x: int8x16_t) -> int32x4_t {
    let [a, b, c, d] = weights;
    // SAFETY: the instructions exist, and change one register only.
    unsafe {
        asm!(
            "sdot {sum:v}.4s, {a:v}.16b, {x:v}.4b[0]",
            "sdot {sum:v}.4s, {b:v}.16b, {x:v}.4b[1]",
            "sdot {sum:v}.4s, {c:v}.16b, {x:v}.4b[2]",
            "sdot {sum:v}.4s, {d:v}.16b, {x:v}.4b[3]",
            sum = inout(vreg) sum,
            a = in(vreg) a,
            b = in(vreg) b,
            c = in(vreg) c,
            d = in(vreg) d,
            x = in(vreg) x,
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

impl DotProducts for I8mm {
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
    unsafe fn order_codes([a, b]: [Vector; 2]) -> [Vector; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            [
                [vzip1q_s32(a[0], b[0]), vzip2q_s32(a[0], b[0])],
                [vzip1q_s32(a[1], b[1]), vzip2q_s32(a[1], b[1])],
            ]
        }
    }

    #[inline(always)]
    unsafe fn fifth_bits(bits: Vector, first: u32) -> Vector {
        // The first byte of each row, eight times.
        const FROM: [u64; 4] =
            [0, 0x0404_0404_0404_0404, 0x0808_0808_0808_0808, 0x0c0c_0c0c_0c0c_0c0c];
        const UP: [i8; 8] = [4, 3, 2, 1, 0, -1, -2, -3];
        // SAFETY: the caller's promise; there are as many elements.
        unsafe {
            let bits = registers::shr(bits, first / 8 * 8)[first as usize / 4 % 2];
            let a = vreinterpretq_u8_u64(vld1q_u64(FROM.as_ptr()));
            let b = vreinterpretq_u8_u64(vld1q_u64(FROM.as_ptr().add(2)));
            let up = vld1_s8(UP.as_ptr());
            let up = vcombine_s8(up, up);
            [fifth_bit(bits, a, up), fifth_bit(bits, b, up)]
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
                // The sums wx, wx', w'x and w'x' of rows w and w', activations x and x'.
                let mut squares = [[
                    vzip1q_s32(a[0], b[0]),
                    vzip2q_s32(a[0], b[0]),
                    vzip1q_s32(a[1], b[1]),
                    vzip2q_s32(a[1], b[1]),
                ]; NR];
                for i in (0..N).step_by(4) {
                    let (a, b) =
                        (vld1q_s64(x[r].add(4 * i).cast()), vld1q_s64(x[next].add(4 * i).cast()));
                    let x = [vzip1q_s64(a, b), vzip2q_s64(a, b)];
                    for (squares, weights) in squares.iter_mut().zip(weights) {
                        let [a, b, c, d] = *weights.add(i).cast::<[Vector; 4]>();
                        squares[0] = smmla(squares[0], [a[0], c[0]], x);
                        squares[1] = smmla(squares[1], [a[1], c[1]], x);
                        squares[2] = smmla(squares[2], [b[0], d[0]], x);
                        squares[3] = smmla(squares[3], [b[1], d[1]], x);
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

/// `sums` and the products of sixteen columns: two times `vmmlaq_s32`.
#[inline]
#[target_feature(enable = "i8mm")]
fn smmla(mut sums: int32x4_t, weights: [int32x4_t; 2], x: [int64x2_t; 2]) -> int32x4_t {
    // SAFETY: the instructions exist, and change one register only.
    unsafe {
        asm!(
            "smmla {sums:v}.4s, {a:v}.16b, {x:v}.16b",
            "smmla {sums:v}.4s, {b:v}.16b, {y:v}.16b",
            sums = inout(vreg) sums,
            a = in(vreg) weights[0],
            b = in(vreg) weights[1],
            x = in(vreg) x[0],
            y = in(vreg) x[1],
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sums
}
