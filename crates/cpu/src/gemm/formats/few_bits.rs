//! Blocks of one or two bits per element with a scale: Q1_0 and Q2_0.

use std::mem::offset_of;

use pelton_quant::{BlockQ1_0, BlockQ2_0, DType};

use super::super::tile::{Format, Tile};
use super::super::vectors::{Rows, Vectors};
use super::codings;
use super::fields::f16_at;
use super::grids::ordered;

/// See [`BlockQ2_0`].
pub(in super::super) struct Q2_0;

impl Format for Q2_0 {
    const DTYPE: DType = DType::Q2_0;
    type Coding = codings::U4Minus1;
    const DIRECT: bool = true;
    const GROUP: usize = 1;
    /// The scale.
    type Header<S: Vectors> = S::F;

    #[inline(always)]
    unsafe fn header<S: Vectors>(block: Rows) -> S::F {
        // SAFETY: the caller's promise.
        unsafe { f16_at::<S>(block, offset_of!(BlockQ2_0, d), size_of::<BlockQ2_0>()) }
    }

    /// A byte has the codes of four columns.
    #[inline(always)]
    unsafe fn unpack<S: Vectors>(block: Rows, d: &S::F, group: usize, to: *mut Tile<S>) {
        // SAFETY: the fields lie inside of the block, and there is room for a tile.
        unsafe {
            let mut codes = [S::splat_i(0); 8];
            for word in 0..2 {
                let bytes = S::load4(block.at(offset_of!(BlockQ2_0, qs) + 8 * group + 4 * word));
                for byte in 0..4 {
                    let four = S::and(S::shr(bytes, 8 * byte), S::splat_i(0xff));
                    let pairs = S::and(S::or(four, S::shl(four, 12)), S::splat_i(0x000f_000f));
                    let ones = S::or(pairs, S::shl(pairs, 6));
                    codes[4 * word + byte as usize] = S::and(ones, S::splat_i(0x0303_0303));
                }
            }
            (*to).codes = ordered::<S>(codes);
            (*to).scale[0] = *d;
        }
    }
}

/// See [`BlockQ1_0`].
pub(in super::super) struct Q1_0;

impl Format for Q1_0 {
    const DTYPE: DType = DType::Q1_0;
    type Coding = codings::U4Minus1;
    const DIRECT: bool = true;
    const GROUP: usize = 1;
    /// The scale.
    type Header<S: Vectors> = S::F;

    #[inline(always)]
    unsafe fn header<S: Vectors>(block: Rows) -> S::F {
        // SAFETY: the caller's promise.
        unsafe { f16_at::<S>(block, offset_of!(BlockQ1_0, d), size_of::<BlockQ1_0>()) }
    }

    /// Four bits are those of four columns, with the codes 0 and 2.
    #[inline(always)]
    unsafe fn unpack<S: Vectors>(block: Rows, d: &S::F, group: usize, to: *mut Tile<S>) {
        // SAFETY: the fields lie inside of the block, and there is room for a tile.
        unsafe {
            let bits = S::load4(block.at(offset_of!(BlockQ1_0, qs) + 4 * group));
            for (i, code) in (*to).codes.iter_mut().enumerate() {
                *code = S::shr(S::fifth_bits(bits, 4 * i as u32), 3);
            }
            (*to).scale[0] = *d;
        }
    }
}
