//! Super-blocks of 256 whose 8 blocks of 32 have 6-bit scales and the levels of IQ4_NL: IQ4_XS.

use std::mem::offset_of;

use pelton_quant::{BlockIq4Xs, DType, IQ4_NL_LEVELS};

use super::super::tile::{Format, Tile};
use super::super::vectors::{Rows, Vectors};
use super::codings;
use super::fields::{levels, nibbles};

/// See [`BlockIq4Xs`].
pub(in super::super) struct Iq4Xs;

/// The scales of an IQ4_XS super-block.
#[derive(Clone, Copy)]
pub(in super::super) struct Iq4XsHeader<S: Vectors> {
    d: S::F,
    /// Two upper bits for each block of 32.
    high: S::I,
    /// Four lower bits for each block of 32.
    low: S::I,
}

const _: () = {
    assert!(offset_of!(BlockIq4Xs, d) == 0 && offset_of!(BlockIq4Xs, scales_h) == 2);
    assert!(offset_of!(BlockIq4Xs, scales_l) == 4);
};

impl Format for Iq4Xs {
    const DTYPE: DType = DType::IQ4_XS;
    type Coding = codings::I8;
    const DIRECT: bool = true;
    const GROUP: usize = 1;
    type Header<S: Vectors> = Iq4XsHeader<S>;

    #[inline(always)]
    unsafe fn header<S: Vectors>(block: Rows) -> Iq4XsHeader<S> {
        // SAFETY: the caller's promise; the fields lie inside of the block.
        unsafe {
            let [first, low, _, _] = S::load16(block);
            Iq4XsHeader { d: S::f16_to_f32(first), high: S::shr(first, 16), low }
        }
    }

    #[inline(always)]
    unsafe fn unpack<S: Vectors>(
        block: Rows,
        header: &Iq4XsHeader<S>,
        group: usize,
        to: *mut Tile<S>,
    ) {
        // SAFETY: the fields lie inside of the block, and there is room for a tile.
        unsafe {
            let qs = block.at(offset_of!(BlockIq4Xs, qs) + 16 * group);
            (*to).codes = levels::<S>(&IQ4_NL_LEVELS, nibbles::<S>(qs));
            let low = S::and(S::shr(header.low, 4 * group as u32), S::splat_i(15));
            let high = S::and(S::shr(header.high, 2 * group as u32), S::splat_i(3));
            let scale = S::add_i(S::or(low, S::shl(high, 4)), S::splat_i(-32));
            (*to).scale[0] = S::mul(header.d, S::to_f32(scale));
        }
    }
}
