//! Blocks of four-bit floats (E2M1): MXFP4.

use std::mem::offset_of;

use pelton_quant::{BlockMxfp4, DType, FP4_LEVELS};

use super::super::tile::{Format, Tile};
use super::super::vectors::{Codes, Rows, Vectors};
use super::fields::{levels, nibbles};

/// 2^(e - 128) of exponents 0 to 255.
///
/// It is subnormal for the smallest two, and so the product of two powers whose exponents, half of
/// it each, are normal.
///
/// # Safety
/// The instructions of `S` exist.
#[inline(always)]
unsafe fn power<S: Vectors>(e: S::I) -> S::F {
    // SAFETY: the caller's promise.
    unsafe {
        let (bias, one) = (S::splat_i(127 - 64), S::splat_i(1));
        let lower = S::shl(S::add_i(S::shr(e, 1), bias), 23);
        let upper = S::shl(S::add_i(S::shr(S::add_i(e, one), 1), bias), 23);
        S::mul(S::f32_of_bits(lower), S::f32_of_bits(upper))
    }
}

/// See [`BlockMxfp4`].
pub(in super::super) struct Mxfp4;

impl Format for Mxfp4 {
    const DTYPE: DType = DType::MXFP4;
    const CODES: Codes = Codes::I8;
    const ZERO: Option<u32> = None;
    const HALVES: bool = false;
    const MIN: bool = false;
    const GROUP: usize = 1;
    type Header<S: Vectors> = ();

    #[inline(always)]
    unsafe fn header<S: Vectors>(_: Rows) {}

    #[inline(always)]
    unsafe fn unpack<S: Vectors>(block: Rows, (): &(), _: usize, to: *mut Tile<S>) {
        const { assert!(offset_of!(BlockMxfp4, e) == 0) };
        // SAFETY: the fields lie inside of the block, and there is room for a tile.
        unsafe {
            let qs = block.at(offset_of!(BlockMxfp4, qs));
            (*to).codes = levels::<S>(&FP4_LEVELS, nibbles::<S>(qs));
            (*to).scale[0] = power::<S>(S::and(S::load4(block), S::splat_i(0xff)));
        }
    }
}
