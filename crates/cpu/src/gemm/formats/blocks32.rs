//! Blocks of 32 with a scale, and perhaps a minimum, in f16.

use std::mem::offset_of;

use pelton_quant::{
    BlockIq4Nl, BlockQ4_0, BlockQ4_1, BlockQ5_0, BlockQ5_1, BlockQ8_0, DType, IQ4_NL_LEVELS,
};

use super::super::tile::{Format, Tile};
use super::super::vectors::{Rows, Vectors};
use super::codings;
use super::fields::{f16_at, f16_pair_at, levels, load32, nibbles, signed};

/// As `nibbles`, with a fifth bit for each column from the 32 bits at `high`.
///
/// # Safety
/// As for `nibbles`; the 4 bytes at `high` are readable.
#[inline(always)]
unsafe fn five_bits<S: Vectors>(from: Rows, high: Rows) -> [S::I; 8] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut codes = nibbles::<S>(from);
        let high = S::load4(high);
        for (i, codes) in codes.iter_mut().enumerate() {
            *codes = S::or(*codes, S::fifth_bits(high, 4 * i as u32));
        }
        codes
    }
}

/// Implements `Format` for blocks of one tile without a header.
///
/// `$codes` gives the eight vectors of codes of a block. The scale comes first, and the minimum,
/// if there is `min` one, behind it.
macro_rules! block_format {
    ($name:ident, $block:ident, $dtype:ident, $coding:ident, min: $min:literal,
     |$at:ident| $codes:expr) => {
        #[doc = concat!("See [`", stringify!($block), "`].")]
        pub(in super::super) struct $name;

        impl Format for $name {
            const DTYPE: DType = DType::$dtype;
            type Coding = codings::$coding;
            const DIRECT: bool = true;
            const GROUP: usize = 1;
            type Header<S: Vectors> = ();

            #[inline(always)]
            unsafe fn header<S: Vectors>(_: Rows) {}

            #[inline(always)]
            unsafe fn unpack<S: Vectors>($at: Rows, (): &(), _: usize, to: *mut Tile<S>) {
                const { assert!(offset_of!($block, d) == 0) };
                // SAFETY: the fields lie inside of the block, and there is room for a tile.
                unsafe {
                    (*to).codes = $codes;
                    if $min {
                        ((*to).scale[0], (*to).min[0]) = f16_pair_at::<S>($at, 0);
                    } else {
                        (*to).scale[0] = f16_at::<S>($at, 0, size_of::<$block>());
                    }
                }
            }
        }
    };
}

const _: () = assert!(offset_of!(BlockQ4_1, m) == 2 && offset_of!(BlockQ5_1, m) == 2);

block_format!(Q4_0, BlockQ4_0, Q4_0, U4Minus8, min: false,
    |block| nibbles::<S>(block.at(offset_of!(BlockQ4_0, qs))));

block_format!(Q4_1, BlockQ4_1, Q4_1, U4Min, min: true,
    |block| nibbles::<S>(block.at(offset_of!(BlockQ4_1, qs))));

block_format!(Q5_0, BlockQ5_0, Q5_0, U5Minus16, min: false,
|block| five_bits::<S>(
    block.at(offset_of!(BlockQ5_0, qs)),
    block.at(offset_of!(BlockQ5_0, qh)),
));

block_format!(Q5_1, BlockQ5_1, Q5_1, U5Min, min: true,
|block| five_bits::<S>(
    block.at(offset_of!(BlockQ5_1, qs)),
    block.at(offset_of!(BlockQ5_1, qh)),
));

block_format!(Q8_0, BlockQ8_0, Q8_0, I8, min: false,
    |block| signed::<S>(load32::<S>(block.at(offset_of!(BlockQ8_0, qs)))));

block_format!(Iq4Nl, BlockIq4Nl, IQ4_NL, I8, min: false,
    |block| levels::<S>(&IQ4_NL_LEVELS, nibbles::<S>(block.at(offset_of!(BlockIq4Nl, qs)))));
