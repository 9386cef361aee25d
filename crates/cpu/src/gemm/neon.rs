//! The vector operations in NEON, which every 64-bit Arm CPU has: 8 rows at a time.
//!
//! The products of bytes, in which CPUs differ, are in `products.rs`.
//!
//! The three instruction sets of Arm differ only in the multiplication of bytes. `dotprod` makes
//! four products a lane, as VNNI does. `i8mm` multiplies two rows of eight columns by two rows of
//! eight activations at a time. So its codes lie eight columns of two rows in a register, and the
//! four sums return to lanes at the end of a block. Plain NEON widens products to 16 bits and adds
//! as many of them there as surely fit. A tile has as many sums as fit into 32 registers of 16
//! bytes.
//!
//! These kernels were run in an emulator for every format and odd shapes, and never timed: no Arm
//! CPU was at hand. There is no manual prefetch on Arm, because the order that pays on x86 was
//! found by timing.

mod products;
mod registers;

use std::arch::aarch64::*;

use super::vectors::{Codes, Rows, Vectors};
use crate::simd::NeonPair;
use products::DotProducts;
pub(super) use products::{DotProd, I8mm, Widening};
use registers::{Pair, each, fifth, load4_of_four, pairs};

impl<P: DotProducts> Vectors for NeonPair<P> {
    const I8_ZERO: Option<u32> = None;
    /// The sums of a tile of two panels, integers and f32, would take all 32 registers.
    const PANELS: usize = 1;
    type I = Pair<int32x4_t>;
    type Magnitudes = ();

    #[inline(always)]
    unsafe fn splat_i(value: i32) -> Self::I {
        // SAFETY: the instructions exist, by the caller's promise; so below.
        unsafe { [vdupq_n_s32(value); 2] }
    }
    #[inline(always)]
    unsafe fn and(a: Self::I, b: Self::I) -> Self::I {
        // SAFETY: as above.
        unsafe { pairs(a, b, |a, b| vandq_s32(a, b)) }
    }
    #[inline(always)]
    unsafe fn or(a: Self::I, b: Self::I) -> Self::I {
        // SAFETY: as above.
        unsafe { pairs(a, b, |a, b| vorrq_s32(a, b)) }
    }
    #[inline(always)]
    unsafe fn xor(a: Self::I, b: Self::I) -> Self::I {
        // SAFETY: as above.
        unsafe { pairs(a, b, |a, b| veorq_s32(a, b)) }
    }
    #[inline(always)]
    unsafe fn sub_i(a: Self::I, b: Self::I) -> Self::I {
        // SAFETY: as above.
        unsafe { pairs(a, b, |a, b| vsubq_s32(a, b)) }
    }
    #[inline(always)]
    unsafe fn add_i(a: Self::I, b: Self::I) -> Self::I {
        // SAFETY: as above.
        unsafe { pairs(a, b, |a, b| vaddq_s32(a, b)) }
    }
    #[inline(always)]
    unsafe fn shl(a: Self::I, bits: u32) -> Self::I {
        // SAFETY: as above.
        unsafe { each(a, |a| vshlq_s32(a, vdupq_n_s32(bits as i32))) }
    }
    #[inline(always)]
    unsafe fn shr(a: Self::I, bits: u32) -> Self::I {
        // SAFETY: as above.
        unsafe { registers::shr(a, bits) }
    }
    #[inline(always)]
    unsafe fn sar(a: Self::I, bits: u32) -> Self::I {
        // SAFETY: as above.
        unsafe { each(a, |a| vshlq_s32(a, vdupq_n_s32(-(bits as i32)))) }
    }

    #[inline(always)]
    unsafe fn to_f32(a: Self::I) -> Self::F {
        // SAFETY: as above.
        unsafe { each(a, |a| vcvtq_f32_s32(a)) }
    }
    #[inline(always)]
    unsafe fn f32_of_bits(a: Self::I) -> Self::F {
        // SAFETY: as above.
        unsafe { each(a, |a| vreinterpretq_f32_s32(a)) }
    }
    #[inline(always)]
    unsafe fn f16_to_f32(a: Self::I) -> Self::F {
        // SAFETY: as above.
        unsafe { each(a, |a| vcvt_f32_f16(vreinterpret_f16_s16(vmovn_s32(a)))) }
    }

    #[inline(always)]
    unsafe fn load4(from: Rows) -> Self::I {
        // SAFETY: as above; there are `LANES` rows.
        unsafe { [load4_of_four(from), load4_of_four(fifth(from))] }
    }
    #[inline(always)]
    unsafe fn load16(from: Rows) -> [Self::I; 4] {
        // SAFETY: as above.
        unsafe { registers::load16(from) }
    }
    #[inline(always)]
    unsafe fn load_codes(from: Rows) -> [Self::I; 4] {
        // SAFETY: the caller's promise.
        unsafe { P::load_codes(from) }
    }

    #[inline(always)]
    unsafe fn magnitudes(_: &[Self::I; 8]) {}
    #[inline(always)]
    unsafe fn from_i8(a: Self::I) -> Self::I {
        a
    }
    #[inline(always)]
    unsafe fn lookup(table: &[i8; 16], index: Self::I) -> Self::I {
        // SAFETY: as above; the table has 16 bytes.
        unsafe {
            let table = vld1q_s8(table.as_ptr());
            let find = |index| vqtbl1q_s8(table, vreinterpretq_u8_s32(index));
            each(index, |index| vreinterpretq_s32_s8(find(index)))
        }
    }
    #[inline(always)]
    unsafe fn gather(table: *const u8, index: Self::I) -> Self::I {
        // SAFETY: the caller's promise.
        unsafe { each(index, |index| registers::gather(table, index)) }
    }
    #[inline(always)]
    unsafe fn order_codes(columns: [Self::I; 2]) -> [Self::I; 2] {
        // SAFETY: the caller's promise.
        unsafe { P::order_codes(columns) }
    }
    #[inline(always)]
    unsafe fn fifth_bits(bits: Self::I, first: u32) -> Self::I {
        // SAFETY: as above.
        unsafe { P::fifth_bits(bits, first) }
    }

    #[inline(always)]
    unsafe fn dot<const N: usize, const NR: usize, const MR: usize>(
        codes: Codes,
        weights: [*const Self::I; NR],
        x: [*const i8; MR],
        start: [Self::I; MR],
    ) -> [[Self::I; MR]; NR] {
        // SAFETY: the caller's promise.
        unsafe { P::dot::<N, NR, MR>(codes, weights, x, start) }
    }
}
