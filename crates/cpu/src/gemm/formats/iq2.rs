//! Super-blocks of 256 with codebooks of eight magnitudes: IQ2_XXS, IQ2_XS and IQ2_S.

use std::mem::offset_of;

use pelton_quant::{
    BlockIq2S, BlockIq2Xs, BlockIq2Xxs, DType, IQ2_S_GRID, IQ2_XS_GRID, IQ2_XXS_GRID,
};

use super::super::tile::{Format, Tile};
use super::super::vectors::{Rows, Vectors};
use super::codings;
use super::fields::{byte, f16_at};
use super::grids::{eight, even, field, odd_multiple, signed, signs_of_sevens};

/// All three have the scale first.
const _: () = {
    assert!(offset_of!(BlockIq2Xxs, d) == 0);
    assert!(offset_of!(BlockIq2Xs, d) == 0 && offset_of!(BlockIq2S, d) == 0);
};

/// An eighth of the f16 scale at the start of a block.
///
/// # Safety
/// `block` is a whole block, and the instructions of `S` exist.
#[inline(always)]
unsafe fn eighth<S: Vectors>(block: Rows) -> S::F {
    // SAFETY: the caller's promise.
    unsafe { S::mul(f16_at::<S>(block, 0, 4), S::splat(0.125)) }
}

/// See [`BlockIq2Xxs`].
pub(in super::super) struct Iq2Xxs;

impl Format for Iq2Xxs {
    const DTYPE: DType = DType::IQ2_XXS;
    type Coding = codings::I8;
    const DIRECT: bool = false;
    const GROUP: usize = 2;
    /// An eighth of the scale.
    type Header<S: Vectors> = S::F;

    #[inline(always)]
    unsafe fn header<S: Vectors>(block: Rows) -> S::F {
        // SAFETY: the caller's promise.
        unsafe { eighth::<S>(block) }
    }

    #[inline(always)]
    unsafe fn unpack<S: Vectors>(block: Rows, unit: &S::F, group: usize, to: *mut Tile<S>) {
        // SAFETY: the fields lie inside of the block, there is room for two tiles, and a byte is
        // below 256.
        unsafe {
            let words = S::load16(block.at(offset_of!(BlockIq2Xxs, qs) + 16 * group));
            for tile in 0..2 {
                let to = to.add(tile);
                let (indices, word) = (words[2 * tile], words[2 * tile + 1]);
                let mut values = [S::splat_i(0); 8];
                for i in 0..4 {
                    let index = byte::<S>(indices, i);
                    [values[2 * i], values[2 * i + 1]] = eight::<S, 256>(&IQ2_XXS_GRID, index);
                }
                (*to).codes = signed::<S>(values, signs_of_sevens::<S>(word));
                (*to).scale[0] = odd_multiple::<S>(*unit, S::shr(word, 28));
            }
        }
    }
}

/// See [`BlockIq2Xs`].
pub(in super::super) struct Iq2Xs;

impl Format for Iq2Xs {
    const DTYPE: DType = DType::IQ2_XS;
    type Coding = codings::I8Halves;
    const DIRECT: bool = false;
    const GROUP: usize = 2;
    /// An eighth of the scale, and four bits of scale for every 16 columns.
    type Header<S: Vectors> = (S::F, [S::I; 2]);

    #[inline(always)]
    unsafe fn header<S: Vectors>(block: Rows) -> Self::Header<S> {
        // SAFETY: the caller's promise; the fields lie inside of the block.
        unsafe {
            let scales = block.at(offset_of!(BlockIq2Xs, scales));
            (eighth::<S>(block), [S::load4(scales), S::load4(scales.at(4))])
        }
    }

    /// Two indices of nine bits with seven signs each are a word.
    #[inline(always)]
    unsafe fn unpack<S: Vectors>(
        block: Rows,
        (unit, scales): &Self::Header<S>,
        group: usize,
        to: *mut Tile<S>,
    ) {
        // SAFETY: the fields lie inside of the block, there is room for two tiles, and nine bits
        // are below 512.
        unsafe {
            let words = S::load16(block.at(offset_of!(BlockIq2Xs, qs) + 16 * group));
            for tile in 0..2 {
                let (to, part) = (to.add(tile), 2 * group + tile);
                let (a, b) = (words[2 * tile], words[2 * tile + 1]);
                let mut values = [S::splat_i(0); 8];
                for i in 0..4 {
                    let word = if i < 2 { a } else { b };
                    let index = field::<S>(word, 16 * (i % 2) as u32, 9);
                    [values[2 * i], values[2 * i + 1]] = eight::<S, 512>(&IQ2_XS_GRID, index);
                }
                let of_a = S::or(
                    S::and(S::shr(a, 9), S::splat_i(0x7f)),
                    S::and(S::shr(a, 17), S::splat_i(0x7f00)),
                );
                let of_b = S::or(
                    S::and(S::shl(b, 7), S::splat_i(0x7f_0000)),
                    S::and(S::shr(b, 1), S::splat_i(0x7f00_0000)),
                );
                (*to).codes = signed::<S>(values, even::<S>(S::or(of_a, of_b)));
                for half in 0..2 {
                    let first = (8 * (part % 4) + 4 * half) as u32;
                    let scale = field::<S>(scales[part / 4], first, 4);
                    (*to).scale[half] = odd_multiple::<S>(*unit, scale);
                }
            }
        }
    }
}

/// See [`BlockIq2S`].
pub(in super::super) struct Iq2S;

/// The scales and the upper bits of the indices of an IQ2_S super-block.
#[derive(Clone, Copy)]
pub(in super::super) struct Iq2SHeader<S: Vectors> {
    /// An eighth of the scale.
    unit: S::F,
    /// Two bits for every 8 columns.
    high: [S::I; 2],
    /// Four bits for every 16 columns.
    scales: [S::I; 2],
}

impl Format for Iq2S {
    const DTYPE: DType = DType::IQ2_S;
    type Coding = codings::I8Halves;
    const DIRECT: bool = false;
    const GROUP: usize = 4;
    type Header<S: Vectors> = Iq2SHeader<S>;

    #[inline(always)]
    unsafe fn header<S: Vectors>(block: Rows) -> Iq2SHeader<S> {
        const { assert!(offset_of!(BlockIq2S, scales) == offset_of!(BlockIq2S, qh) + 8) };
        // SAFETY: the caller's promise; the fields lie inside of the block.
        unsafe {
            let [a, b, c, d] = S::load16(block.at(offset_of!(BlockIq2S, qh)));
            Iq2SHeader { unit: eighth::<S>(block), high: [a, b], scales: [c, d] }
        }
    }

    #[inline(always)]
    unsafe fn unpack<S: Vectors>(
        block: Rows,
        header: &Iq2SHeader<S>,
        group: usize,
        to: *mut Tile<S>,
    ) {
        const { assert!(offset_of!(BlockIq2S, signs) == offset_of!(BlockIq2S, qs) + 32) };
        // SAFETY: the fields lie inside of the block, there is room for four tiles, and ten bits
        // are below 1024.
        unsafe {
            let from = block.at(offset_of!(BlockIq2S, qs) + 16 * group);
            let (low, signs) = (S::load16(from), S::load16(from.at(32)));
            let (high, scales) = (header.high[group], header.scales[group]);
            for tile in 0..4 {
                let to = to.add(tile);
                let mut values = [S::splat_i(0); 8];
                for i in 0..4 {
                    let high = S::shl(field::<S>(high, (8 * tile + 2 * i) as u32, 2), 8);
                    let index = S::or(byte::<S>(low[tile], i), high);
                    [values[2 * i], values[2 * i + 1]] = eight::<S, 1024>(&IQ2_S_GRID, index);
                }
                (*to).codes = signed::<S>(values, signs[tile]);
                for half in 0..2 {
                    let scale = field::<S>(scales, (8 * tile + 4 * half) as u32, 4);
                    (*to).scale[half] = odd_multiple::<S>(header.unit, scale);
                }
            }
        }
    }
}
