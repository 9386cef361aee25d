//! Super-blocks of 256 with a codebook of eight values -1, 0 and 1: IQ1_S and IQ1_M.
//!
//! Codes are 16 + 8 (value + δ) with δ = ±1/8, so scales are an eighth.

use std::mem::offset_of;

use pelton_quant::{BlockIq1M, BlockIq1S, DType, IQ1_GRID};

use super::super::tile::{Format, Tile};
use super::super::vectors::{Rows, Vectors};
use super::codings;
use super::fields::{byte, f16_at};
use super::grids::{eight, field, odd_multiple, ordered};

/// Eight codes of each row for an index of eight low bits and three upper bits, with the sign bit
/// of δ above these.
///
/// # Safety
/// `low` is below 256, `high` below 16, and the instructions of `S` exist.
#[inline(always)]
unsafe fn codes<S: Vectors>(low: S::I, high: S::I) -> [S::I; 2] {
    // SAFETY: the caller's promise; 11 bits are below 2048.
    unsafe {
        let upper = S::shl(S::and(high, S::splat_i(7)), 8);
        let mut codes = eight::<S, 2048>(&IQ1_GRID, S::or(low, upper));
        let negative = S::sub_i(S::splat_i(0), S::shr(high, 3));
        let two = S::and(negative, S::splat_i(0x0202_0202));
        for codes in &mut codes {
            *codes = S::sub_i(*codes, two);
        }
        codes
    }
}

/// See [`BlockIq1S`].
pub(in super::super) struct Iq1S;

impl Format for Iq1S {
    const DTYPE: DType = DType::IQ1_S;
    type Coding = codings::U5Minus16;
    const DIRECT: bool = false;
    const GROUP: usize = 4;
    /// An eighth of the scale, and 16 bits for each block of 32: upper bits of the indices, scale
    /// and sign.
    type Header<S: Vectors> = (S::F, [S::I; 4]);

    #[inline(always)]
    unsafe fn header<S: Vectors>(block: Rows) -> Self::Header<S> {
        const { assert!(offset_of!(BlockIq1S, d) == 0) };
        // SAFETY: the caller's promise; the fields lie inside of the block.
        unsafe {
            let d = f16_at::<S>(block, 0, size_of::<BlockIq1S>());
            let high = S::load16(block.at(offset_of!(BlockIq1S, qh)));
            (S::mul(d, S::splat(0.125)), high)
        }
    }

    #[inline(always)]
    unsafe fn unpack<S: Vectors>(
        block: Rows,
        (unit, high): &Self::Header<S>,
        group: usize,
        to: *mut Tile<S>,
    ) {
        // SAFETY: the fields lie inside of the block, and there is room for four tiles.
        unsafe {
            let low = S::load16(block.at(offset_of!(BlockIq1S, qs) + 16 * group));
            for (tile, low) in low.into_iter().enumerate() {
                let to = to.add(tile);
                let part = 4 * group + tile;
                let word = S::shr(high[part / 2], 16 * (part % 2) as u32);
                let sign = S::shl(field::<S>(word, 15, 1), 3);
                let mut all = [S::splat_i(0); 8];
                for i in 0..4 {
                    let high = S::or(field::<S>(word, 3 * i as u32, 3), sign);
                    [all[2 * i], all[2 * i + 1]] = codes::<S>(byte::<S>(low, i), high);
                }
                (*to).codes = ordered::<S>(all);
                (*to).scale[0] = odd_multiple::<S>(*unit, field::<S>(word, 12, 3));
            }
        }
    }
}

/// See [`BlockIq1M`].
pub(in super::super) struct Iq1M;

/// The scales and the upper bits of the indices of an IQ1_M super-block.
#[derive(Clone, Copy)]
pub(in super::super) struct Iq1MHeader<S: Vectors> {
    /// An eighth of the scale.
    unit: S::F,
    /// Four bits for every 8 columns.
    high: [S::I; 4],
    /// Three bits for every 16 columns, four times in 16 bits.
    scales: [S::I; 2],
}

impl Format for Iq1M {
    const DTYPE: DType = DType::IQ1_M;
    type Coding = codings::U5Minus16Halves;
    const DIRECT: bool = false;
    const GROUP: usize = 4;
    type Header<S: Vectors> = Iq1MHeader<S>;

    /// The f16 scale is in the upper four bits of four times 16 bits.
    #[inline(always)]
    unsafe fn header<S: Vectors>(block: Rows) -> Iq1MHeader<S> {
        // SAFETY: the caller's promise; the fields lie inside of the block.
        unsafe {
            let from = block.at(offset_of!(BlockIq1M, scales));
            let scales = [S::load4(from), S::load4(from.at(4))];
            let [a, b] = scales;
            let low = S::or(field::<S>(a, 12, 4), S::and(S::shr(a, 24), S::splat_i(0xf0)));
            let high = S::or(
                S::and(S::shr(b, 4), S::splat_i(0xf00)),
                S::and(S::shr(b, 16), S::splat_i(0xf000)),
            );
            let d = S::f16_to_f32(S::or(low, high));
            let high = S::load16(block.at(offset_of!(BlockIq1M, qh)));
            Iq1MHeader { unit: S::mul(d, S::splat(0.125)), high, scales }
        }
    }

    #[inline(always)]
    unsafe fn unpack<S: Vectors>(
        block: Rows,
        header: &Iq1MHeader<S>,
        group: usize,
        to: *mut Tile<S>,
    ) {
        // SAFETY: the fields lie inside of the block, and there is room for four tiles.
        unsafe {
            let low = S::load16(block.at(offset_of!(BlockIq1M, qs) + 16 * group));
            for (tile, low) in low.into_iter().enumerate() {
                let to = to.add(tile);
                let part = 4 * group + tile;
                let word = S::shr(header.high[part / 2], 16 * (part % 2) as u32);
                let mut all = [S::splat_i(0); 8];
                for i in 0..4 {
                    let high = field::<S>(word, 4 * i as u32, 4);
                    [all[2 * i], all[2 * i + 1]] = codes::<S>(byte::<S>(low, i), high);
                }
                (*to).codes = ordered::<S>(all);
                for half in 0..2 {
                    let index = 2 * part + half;
                    let first = 16 * (index / 4 % 2) + 3 * (index % 4);
                    let scale = field::<S>(header.scales[index / 8], first as u32, 3);
                    (*to).scale[half] = odd_multiple::<S>(header.unit, scale);
                }
            }
        }
    }
}
