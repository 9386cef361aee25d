//! Super-blocks of 256 with codebooks of four magnitudes: IQ3_XXS and IQ3_S.

use std::mem::offset_of;

use pelton_quant::{BlockIq3S, BlockIq3Xxs, DType, IQ3_S_GRID, IQ3_XXS_GRID};

use super::super::tile::{Format, Tile};
use super::super::vectors::{Rows, Vectors};
use super::codings;
use super::fields::{byte, bytes32, f16_at};
use super::grids::{field, four, odd_multiple, signed, signs_of_sevens};

/// See [`BlockIq3Xxs`].
pub(in super::super) struct Iq3Xxs;

impl Format for Iq3Xxs {
    const DTYPE: DType = DType::IQ3_XXS;
    type Coding = codings::I8;
    const DIRECT: bool = false;
    const GROUP: usize = 2;
    /// A quarter of the scale, and the words of signs and scale of the blocks of 32.
    type Header<S: Vectors> = (S::F, [S::I; 8]);

    #[inline(always)]
    unsafe fn header<S: Vectors>(block: Rows) -> Self::Header<S> {
        const { assert!(offset_of!(BlockIq3Xxs, d) == 0) };
        // SAFETY: the caller's promise; the fields lie inside of the block.
        unsafe {
            let d = f16_at::<S>(block, 0, size_of::<BlockIq3Xxs>());
            let words = bytes32::<S>(block.at(offset_of!(BlockIq3Xxs, signs)));
            (S::mul(d, S::splat(0.25)), words)
        }
    }

    #[inline(always)]
    unsafe fn unpack<S: Vectors>(
        block: Rows,
        (unit, words): &Self::Header<S>,
        group: usize,
        to: *mut Tile<S>,
    ) {
        // SAFETY: the fields lie inside of the block, there is room for two tiles, and a byte is
        // below 256.
        unsafe {
            let indices = S::load16(block.at(offset_of!(BlockIq3Xxs, qs) + 16 * group));
            for tile in 0..2 {
                let (to, word) = (to.add(tile), words[2 * group + tile]);
                let mut values = [S::splat_i(0); 8];
                for (i, values) in values.iter_mut().enumerate() {
                    let index = byte::<S>(indices[2 * tile + i / 4], i % 4);
                    *values = four::<S, 256>(&IQ3_XXS_GRID, index);
                }
                (*to).codes = signed::<S>(values, signs_of_sevens::<S>(word));
                (*to).scale[0] = odd_multiple::<S>(*unit, S::shr(word, 28));
            }
        }
    }
}

/// See [`BlockIq3S`].
pub(in super::super) struct Iq3S;

/// The fields of an IQ3_S super-block in addition to the low bits of the indices.
#[derive(Clone, Copy)]
pub(in super::super) struct Iq3SHeader<S: Vectors> {
    d: S::F,
    /// The ninth bits of the indices, a byte for each block of 32.
    high: [S::I; 2],
    /// The signs of each block of 32.
    signs: [S::I; 8],
    /// Four bits for each block of 32.
    scales: S::I,
}

impl Format for Iq3S {
    const DTYPE: DType = DType::IQ3_S;
    type Coding = codings::I8;
    const DIRECT: bool = false;
    const GROUP: usize = 2;
    type Header<S: Vectors> = Iq3SHeader<S>;

    #[inline(always)]
    unsafe fn header<S: Vectors>(block: Rows) -> Iq3SHeader<S> {
        const { assert!(offset_of!(BlockIq3S, d) == 0) };
        // SAFETY: the caller's promise; the fields lie inside of the block.
        unsafe {
            let high = block.at(offset_of!(BlockIq3S, qh));
            Iq3SHeader {
                d: f16_at::<S>(block, 0, size_of::<BlockIq3S>()),
                high: [S::load4(high), S::load4(high.at(4))],
                signs: bytes32::<S>(block.at(offset_of!(BlockIq3S, signs))),
                scales: S::load4(block.at(offset_of!(BlockIq3S, scales))),
            }
        }
    }

    #[inline(always)]
    unsafe fn unpack<S: Vectors>(
        block: Rows,
        header: &Iq3SHeader<S>,
        group: usize,
        to: *mut Tile<S>,
    ) {
        // SAFETY: the fields lie inside of the block, there is room for two tiles, and nine bits
        // are below 512.
        unsafe {
            let low = S::load16(block.at(offset_of!(BlockIq3S, qs) + 16 * group));
            for tile in 0..2 {
                let (to, part) = (to.add(tile), 2 * group + tile);
                let high = byte::<S>(header.high[part / 4], part % 4);
                let mut values = [S::splat_i(0); 8];
                for (i, values) in values.iter_mut().enumerate() {
                    let low = byte::<S>(low[2 * tile + i / 4], i % 4);
                    let ninth = S::and(S::shl(high, 8 - i as u32), S::splat_i(0x100));
                    *values = four::<S, 512>(&IQ3_S_GRID, S::or(low, ninth));
                }
                (*to).codes = signed::<S>(values, header.signs[part]);
                let scale = field::<S>(header.scales, 4 * part as u32, 4);
                (*to).scale[0] = odd_multiple::<S>(header.d, scale);
            }
        }
    }
}
