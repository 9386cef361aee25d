//! Super-blocks of 256 with a scale for every 16 columns: Q2_K, Q3_K and Q6_K.
//!
//! All three interleave 128 columns: 32 bytes hold some bits of the codes of four runs of 32.

use std::mem::offset_of;

use pelton_quant::{BlockQ2K, BlockQ3K, BlockQ6K, DType};

use super::super::tile::{Format, Tile};
use super::super::vectors::{Rows, Vectors};
use super::codings;
use super::fields::{bits, bits8, byte, f16_at, f16_pair_at, load32, with_bits8};

/// See [`BlockQ2K`].
pub(in super::super) struct Q2K;

/// The scales of all groups of a Q2_K super-block.
#[derive(Clone, Copy)]
pub(in super::super) struct Q2KHeader<S: Vectors> {
    d: S::F,
    minus_dmin: S::F,
    /// A byte for 16 columns: the scale in the low half, the minimum in the high.
    scales: [S::I; 4],
}

impl Format for Q2K {
    const DTYPE: DType = DType::Q2_K;
    type Coding = codings::U4MinHalves;
    const DIRECT: bool = true;
    const GROUP: usize = 4;
    type Header<S: Vectors> = Q2KHeader<S>;

    #[inline(always)]
    unsafe fn header<S: Vectors>(block: Rows) -> Q2KHeader<S> {
        const { assert!(offset_of!(BlockQ2K, dmin) == offset_of!(BlockQ2K, d) + 2) };
        // SAFETY: the caller's promise; the fields lie inside of the block.
        unsafe {
            let (d, dmin) = f16_pair_at::<S>(block, offset_of!(BlockQ2K, d));
            Q2KHeader {
                d,
                minus_dmin: S::mul(dmin, S::splat(-1.0)),
                scales: S::load16(block.at(offset_of!(BlockQ2K, scales))),
            }
        }
    }

    #[inline(always)]
    unsafe fn unpack<S: Vectors>(
        block: Rows,
        header: &Q2KHeader<S>,
        group: usize,
        to: *mut Tile<S>,
    ) {
        // SAFETY: the fields lie inside of the block, and there is room for four tiles.
        unsafe {
            let bytes = load32::<S>(block.at(offset_of!(BlockQ2K, qs) + 32 * group));
            for run in 0..4 {
                let to = to.add(run);
                (*to).codes = bits8::<S>(bytes, 2 * run as u32, 2);
                for half in 0..2 {
                    let index = 8 * group + 2 * run + half;
                    let both = byte::<S>(header.scales[index / 4], index % 4);
                    let scale = S::to_f32(S::and(both, S::splat_i(15)));
                    let min = S::to_f32(S::shr(both, 4));
                    (*to).scale[half] = S::mul(header.d, scale);
                    (*to).min[half] = S::mul(header.minus_dmin, min);
                }
            }
        }
    }
}

/// See [`BlockQ3K`].
pub(in super::super) struct Q3K;

/// The scales and third bits of all groups of a Q3_K super-block.
#[derive(Clone, Copy)]
pub(in super::super) struct Q3KHeader<S: Vectors> {
    d: S::F,
    /// A byte for 16 columns, 32 too large.
    scales: [S::I; 4],
    /// Bit b of byte l is the third bit of column l of run b of 32.
    third: [S::I; 8],
}

impl Format for Q3K {
    const DTYPE: DType = DType::Q3_K;
    type Coding = codings::U4Minus4Halves;
    const DIRECT: bool = true;
    const GROUP: usize = 4;
    type Header<S: Vectors> = Q3KHeader<S>;

    /// The first 8 of the 12 bytes of packed scales hold low four bits: of the scales 0 to 7 in
    /// their low halves, of 8 to 15 in the high. Byte 8 + k % 4 has the upper two bits of scale k
    /// at bit 2 (k / 4).
    #[inline(always)]
    unsafe fn header<S: Vectors>(block: Rows) -> Q3KHeader<S> {
        const BYTES: usize = size_of::<BlockQ3K>();
        // SAFETY: the caller's promise; the fields lie inside of the block, and more than 4
        // bytes come before the scales.
        unsafe {
            let [_, a, b, c] = S::load16(block.at(offset_of!(BlockQ3K, scales) - 4));
            let mut scales = [a, b, a, b];
            for (i, scales) in scales.iter_mut().enumerate() {
                let low = bits::<S>(*scales, if i < 2 { 0 } else { 4 }, 4);
                *scales = S::or(low, S::shl(bits::<S>(c, 2 * i as u32, 2), 4));
            }
            Q3KHeader {
                d: f16_at::<S>(block, offset_of!(BlockQ3K, d), BYTES),
                scales,
                third: load32::<S>(block.at(offset_of!(BlockQ3K, hmask))),
            }
        }
    }

    #[inline(always)]
    unsafe fn unpack<S: Vectors>(
        block: Rows,
        header: &Q3KHeader<S>,
        group: usize,
        to: *mut Tile<S>,
    ) {
        // SAFETY: the fields lie inside of the block, and there is room for four tiles.
        unsafe {
            let bytes = load32::<S>(block.at(offset_of!(BlockQ3K, qs) + 32 * group));
            let mut third = header.third;
            if group > 0 {
                for third in &mut third {
                    *third = S::shr(*third, 4);
                }
            }
            for run in 0..4 {
                let to = to.add(run);
                let codes = bits8::<S>(bytes, 2 * run as u32, 2);
                (*to).codes = with_bits8::<S>(codes, &third, run as u32, 1, 2);
                for half in 0..2 {
                    let index = 8 * group + 2 * run + half;
                    let scale = byte::<S>(header.scales[index / 4], index % 4);
                    let scale = S::to_f32(S::add_i(scale, S::splat_i(-32)));
                    (*to).scale[half] = S::mul(header.d, scale);
                }
            }
        }
    }
}

/// See [`BlockQ6K`].
pub(in super::super) struct Q6K;

/// The scales of all groups of a Q6_K super-block.
#[derive(Clone, Copy)]
pub(in super::super) struct Q6KHeader<S: Vectors> {
    d: S::F,
    /// A signed byte for 16 columns.
    scales: [S::I; 4],
}

impl Format for Q6K {
    const DTYPE: DType = DType::Q6_K;
    type Coding = codings::U6Minus32Halves;
    const DIRECT: bool = true;
    const GROUP: usize = 4;
    type Header<S: Vectors> = Q6KHeader<S>;

    #[inline(always)]
    unsafe fn header<S: Vectors>(block: Rows) -> Q6KHeader<S> {
        const BYTES: usize = size_of::<BlockQ6K>();
        // SAFETY: the caller's promise; the fields lie inside of the block.
        unsafe {
            Q6KHeader {
                d: f16_at::<S>(block, offset_of!(BlockQ6K, d), BYTES),
                scales: S::load16(block.at(offset_of!(BlockQ6K, scales))),
            }
        }
    }

    /// 64 bytes hold the low four bits of runs 0 and 1 in their low halves, of runs 2 and 3 in the
    /// high. 32 more hold the upper two bits of run r at bit 2 r.
    #[inline(always)]
    unsafe fn unpack<S: Vectors>(
        block: Rows,
        header: &Q6KHeader<S>,
        group: usize,
        to: *mut Tile<S>,
    ) {
        // SAFETY: the fields lie inside of the block, and there is room for four tiles.
        unsafe {
            let low = block.at(offset_of!(BlockQ6K, ql) + 64 * group);
            let low = [load32::<S>(low), load32::<S>(low.at(32))];
            let high = load32::<S>(block.at(offset_of!(BlockQ6K, qh) + 32 * group));
            for run in 0..4 {
                let to = to.add(run);
                let first = if run < 2 { 0 } else { 4 };
                let codes = bits8::<S>(low[run % 2], first, 4);
                (*to).codes = with_bits8::<S>(codes, &high, 2 * run as u32, 2, 4);
                for half in 0..2 {
                    let index = 8 * group + 2 * run + half;
                    let byte = S::shl(header.scales[index / 4], 24 - 8 * (index % 4) as u32);
                    let scale = S::to_f32(S::sar(byte, 24));
                    (*to).scale[half] = S::mul(header.d, scale);
                }
            }
        }
    }
}
