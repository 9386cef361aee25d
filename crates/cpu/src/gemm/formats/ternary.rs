//! Super-blocks of 256 with a scale and the values -1, 0 and 1: TQ1_0 and TQ2_0.

use std::mem::offset_of;

use pelton_quant::{BlockTq1_0, BlockTq2_0, DType};

use super::super::tile::{Format, Tile};
use super::super::vectors::{Rows, Vectors};
use super::codings;
use super::fields::{bits8, f16_at, load32};
use super::grids::ordered;

/// See [`BlockTq2_0`].
pub(in super::super) struct Tq2_0;

impl Format for Tq2_0 {
    const DTYPE: DType = DType::TQ2_0;
    type Coding = codings::U4Minus1;
    const DIRECT: bool = false;
    const GROUP: usize = 4;
    /// The scale.
    type Header<S: Vectors> = S::F;

    #[inline(always)]
    unsafe fn header<S: Vectors>(block: Rows) -> S::F {
        // SAFETY: the caller's promise.
        unsafe { f16_at::<S>(block, offset_of!(BlockTq2_0, d), size_of::<BlockTq2_0>()) }
    }

    #[inline(always)]
    unsafe fn unpack<S: Vectors>(block: Rows, d: &S::F, group: usize, to: *mut Tile<S>) {
        // SAFETY: the fields lie inside of the block, and there is room for four tiles.
        unsafe {
            let from = block.at(offset_of!(BlockTq2_0, qs) + 32 * group);
            let bytes = load32::<S>(from);
            for run in 0..4 {
                let to = to.add(run);
                (*to).codes = bits8::<S>(bytes, 2 * run as u32, 2);
                (*to).scale[0] = *d;
            }
        }
    }
}

/// The even and the odd bytes of a vector, 16 bits each.
type Wide<I> = [I; 2];

/// # Safety
/// The instructions of `S` exist.
#[inline(always)]
unsafe fn widen<S: Vectors>(bytes: S::I) -> Wide<S::I> {
    let mask = 0x00ff_00ff;
    // SAFETY: the caller's promise.
    unsafe { [S::and(bytes, S::splat_i(mask)), S::and(S::shr(bytes, 8), S::splat_i(mask))] }
}

/// The first digits to base 3 of all bytes: the carries of a multiplication by 3. Its results
/// replace the bytes, so that the next call gives the next digits.
///
/// # Safety
/// The instructions of `S` exist.
#[inline(always)]
unsafe fn next_digits<S: Vectors>(bytes: &mut Wide<S::I>) -> S::I {
    // SAFETY: the caller's promise.
    unsafe {
        let even = S::add_i(bytes[0], S::shl(bytes[0], 1));
        let odd = S::add_i(bytes[1], S::shl(bytes[1], 1));
        let mask = S::splat_i(0x00ff_00ff);
        *bytes = [S::and(even, mask), S::and(odd, mask)];
        S::or(S::and(S::shr(even, 8), mask), S::and(odd, S::splat_i(0x0300_0300)))
    }
}

/// See [`BlockTq1_0`].
pub(in super::super) struct Tq1_0;

impl Format for Tq1_0 {
    const DTYPE: DType = DType::TQ1_0;
    type Coding = codings::U4Minus1;
    const DIRECT: bool = false;
    const GROUP: usize = 4;
    /// The scale.
    type Header<S: Vectors> = S::F;

    #[inline(always)]
    unsafe fn header<S: Vectors>(block: Rows) -> S::F {
        // SAFETY: the caller's promise.
        unsafe { f16_at::<S>(block, offset_of!(BlockTq1_0, d), size_of::<BlockTq1_0>()) }
    }

    /// 32 bytes have a digit of each of the first five tiles. 16 bytes have five digits of 16
    /// columns, and 4 bytes four digits of 4 columns, which are the other three tiles.
    #[inline(always)]
    unsafe fn unpack<S: Vectors>(block: Rows, d: &S::F, group: usize, to: *mut Tile<S>) {
        const { assert!(offset_of!(BlockTq1_0, qs) == 0) };
        // SAFETY: the fields lie inside of the block, and there is room for four tiles.
        unsafe {
            for tile in 0..4 {
                (*to.add(tile)).scale[0] = *d;
            }
            for (i, bytes) in load32::<S>(block).into_iter().enumerate() {
                let mut bytes = widen::<S>(bytes);
                for run in 0..4 {
                    let digits = next_digits::<S>(&mut bytes);
                    if group == 0 {
                        (*to.add(run)).codes[i] = digits;
                    }
                }
                if group == 1 {
                    (*to).codes[i] = next_digits::<S>(&mut bytes);
                }
            }
            if group == 0 {
                return;
            }
            for (i, bytes) in S::load_codes(block.at(32)).into_iter().enumerate() {
                let mut bytes = widen::<S>(bytes);
                for run in 0..5 {
                    let digits = next_digits::<S>(&mut bytes);
                    (*to.add(1 + run / 2)).codes[4 * (run % 2) + i] = digits;
                }
            }
            let mut bytes = widen::<S>(S::load4(block.at(offset_of!(BlockTq1_0, qh))));
            let mut last = [S::splat_i(0); 8];
            for last in &mut last[4..] {
                *last = next_digits::<S>(&mut bytes);
            }
            for (i, last) in ordered::<S>(last).into_iter().enumerate().skip(4) {
                (*to.add(3)).codes[i] = last;
            }
        }
    }
}
