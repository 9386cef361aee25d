//! The vector operations in NEON, which every 64-bit Arm processor has: 8 rows at a time.
//!
//! What processors differ in, the products of bytes, is in `products.rs`.

mod products;

use std::arch::aarch64::*;
use std::marker::PhantomData;

use super::simd::{Codes, Simd};
use super::tile::Rows;
use products::Products;
pub(super) use products::{DotProd, I8mm, Widening};

/// NEON, and the instructions of `P`.
#[derive(Clone, Copy)]
pub(super) struct Neon<P>(PhantomData<P>);

/// The registers of a vector.
type Pair<T> = [T; 2];

#[inline(always)]
fn each<T: Copy, U: Copy>(a: Pair<T>, f: impl Fn(T) -> U) -> Pair<U> {
    [f(a[0]), f(a[1])]
}

#[inline(always)]
fn pairs<T: Copy>(a: Pair<T>, b: Pair<T>, f: impl Fn(T, T) -> T) -> Pair<T> {
    [f(a[0], b[0]), f(a[1], b[1])]
}

/// The rows from the fifth on.
///
/// # Safety
/// There are more than four.
#[inline(always)]
unsafe fn fifth(rows: Rows) -> Rows {
    // SAFETY: the caller's promise.
    Rows { first: unsafe { rows.first.add(4 * rows.stride) }, stride: rows.stride }
}

/// Four bytes of each of four rows.
///
/// # Safety
/// They are readable.
#[inline(always)]
unsafe fn load4_of_four(from: Rows) -> int32x4_t {
    let mut rows = [0_i32; 4];
    for (i, row) in rows.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *row = unsafe { from.first.add(i * from.stride).cast::<i32>().read_unaligned() };
    }
    // SAFETY: there are four.
    unsafe { vld1q_s32(rows.as_ptr()) }
}

/// Sixteen bytes of each of four rows, transposed: register j holds bytes 4j to 4j+3 of all.
///
/// # Safety
/// They are readable.
#[inline(always)]
unsafe fn load16_of_four(from: Rows) -> [int32x4_t; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        let row = |row| vreinterpretq_s32_u8(vld1q_u8(from.first.add(row * from.stride)));
        let (a, b, c, d) = (row(0), row(1), row(2), row(3));
        let even = |a, b| vreinterpretq_s64_s32(vtrn1q_s32(a, b));
        let odd = |a, b| vreinterpretq_s64_s32(vtrn2q_s32(a, b));
        [
            vreinterpretq_s32_s64(vtrn1q_s64(even(a, b), even(c, d))),
            vreinterpretq_s32_s64(vtrn1q_s64(odd(a, b), odd(c, d))),
            vreinterpretq_s32_s64(vtrn2q_s64(even(a, b), even(c, d))),
            vreinterpretq_s32_s64(vtrn2q_s64(odd(a, b), odd(c, d))),
        ]
    }
}

impl<P: Products> Simd for Neon<P> {
    const LANES: usize = 8;
    const I8_ZERO: Option<u32> = None;
    /// With two the sums of a tile, integers and f32, would take all 32 registers.
    const PANELS: usize = 1;
    type I = Pair<int32x4_t>;
    type F = Pair<float32x4_t>;

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
        unsafe {
            // There are only shifts to the left, which go right by what is negative.
            let right = vdupq_n_s32(-(bits as i32));
            each(a, |a| vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(a), right)))
        }
    }
    #[inline(always)]
    unsafe fn sar(a: Self::I, bits: u32) -> Self::I {
        // SAFETY: as above.
        unsafe { each(a, |a| vshlq_s32(a, vdupq_n_s32(-(bits as i32)))) }
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self::F {
        // SAFETY: as above.
        unsafe { [vdupq_n_f32(value); 2] }
    }
    #[inline(always)]
    unsafe fn to_f32(a: Self::I) -> Self::F {
        // SAFETY: as above.
        unsafe { each(a, |a| vcvtq_f32_s32(a)) }
    }
    #[inline(always)]
    unsafe fn f16_to_f32(a: Self::I) -> Self::F {
        // SAFETY: as above.
        unsafe { each(a, |a| vcvt_f32_f16(vreinterpret_f16_s16(vmovn_s32(a)))) }
    }
    #[inline(always)]
    unsafe fn mul(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: as above.
        unsafe { pairs(a, b, |a, b| vmulq_f32(a, b)) }
    }
    #[inline(always)]
    unsafe fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        // SAFETY: as above.
        unsafe { [vfmaq_f32(c[0], a[0], b[0]), vfmaq_f32(c[1], a[1], b[1])] }
    }
    #[inline(always)]
    unsafe fn store(a: Self::F, to: *mut f32) {
        // SAFETY: as above; there is room for `LANES` numbers.
        unsafe {
            vst1q_f32(to, a[0]);
            vst1q_f32(to.add(4), a[1]);
        }
    }

    #[inline(always)]
    unsafe fn load_f32(from: *const u8) -> Self::F {
        // SAFETY: as above; there are `LANES` numbers, so below.
        unsafe { [vld1q_f32(from.cast()), vld1q_f32(from.add(16).cast())] }
    }
    #[inline(always)]
    unsafe fn load_f16(from: *const u8) -> Self::F {
        // SAFETY: as above.
        unsafe {
            let halves = [vld1_u8(from), vld1_u8(from.add(8))];
            each(halves, |half| vcvt_f32_f16(vreinterpret_f16_u8(half)))
        }
    }
    #[inline(always)]
    unsafe fn load_bf16(from: *const u8) -> Self::F {
        // SAFETY: as above.
        unsafe {
            let halves = [vld1_u8(from), vld1_u8(from.add(8))];
            let widen = |half| vshll_n_u16::<16>(vreinterpret_u16_u8(half));
            each(halves, |half| vreinterpretq_f32_u32(widen(half)))
        }
    }

    #[inline(always)]
    unsafe fn load4(from: Rows) -> Self::I {
        // SAFETY: as above; there are `LANES` rows.
        unsafe { [load4_of_four(from), load4_of_four(fifth(from))] }
    }
    #[inline(always)]
    unsafe fn load16(from: Rows) -> [Self::I; 4] {
        // SAFETY: as above.
        let (low, high) = unsafe { (load16_of_four(from), load16_of_four(fifth(from))) };
        [[low[0], high[0]], [low[1], high[1]], [low[2], high[2]], [low[3], high[3]]]
    }
    #[inline(always)]
    unsafe fn load_codes(from: Rows) -> [Self::I; 4] {
        // SAFETY: the caller's promise.
        unsafe { P::load_codes(from) }
    }

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
