//! Super-blocks of 256 whose 8 blocks of 32 have 6-bit scales and minima: Q4_K and Q5_K.

use std::mem::offset_of;

use pelton_quant::{BlockQ4K, BlockQ5K, DType};

use super::super::tile::{Format, Tile};
use super::super::vectors::{Rows, Vectors};
use super::codings;
use super::fields::{bits, bits8, byte, load32, with_bits8};

/// Scales and minima of a super-block.
#[derive(Clone, Copy)]
pub(in super::super) struct Scales<S: Vectors> {
    d: S::F,
    minus_dmin: S::F,
    /// The scales of blocks 0 to 3 and 4 to 7, a byte each.
    scales: [S::I; 2],
    mins: [S::I; 2],
}

/// The bytes before the codes are the same in both formats.
const _: () = {
    assert!(offset_of!(BlockQ4K, d) == 0 && offset_of!(BlockQ5K, d) == 0);
    assert!(offset_of!(BlockQ4K, dmin) == 2 && offset_of!(BlockQ5K, dmin) == 2);
    assert!(offset_of!(BlockQ4K, scales) == 4 && offset_of!(BlockQ5K, scales) == 4);
};

impl<S: Vectors> Scales<S> {
    /// Reads the first 16 bytes of the blocks.
    ///
    /// The first 4 of the 12 bytes of packed scales and minima hold six bits of the scales 0 to 3,
    /// the next 4 those of the minima 0 to 3. The last 4 hold the low four bits of scale and
    /// minimum 4 to 7, whose upper bits are the two left over in the first and the second 4.
    ///
    /// # Safety
    /// As for [`Format::header`].
    #[inline(always)]
    unsafe fn read(block: Rows) -> Self {
        // SAFETY: the caller's promise; a block has more than 16 bytes.
        unsafe {
            let [d, a, b, c] = S::load16(block);
            let upper_scales = S::shl(bits::<S>(a, 6, 2), 4);
            let upper_mins = S::shl(bits::<S>(b, 6, 2), 4);
            let [d, dmin] = S::f16_pairs(d);
            Self {
                d,
                minus_dmin: S::mul(dmin, S::splat(-1.0)),
                scales: [bits::<S>(a, 0, 6), S::or(bits::<S>(c, 0, 4), upper_scales)],
                mins: [bits::<S>(b, 0, 6), S::or(bits::<S>(c, 4, 4), upper_mins)],
            }
        }
    }

    /// Writes scale and minimum of block `block` of 32 to its tile.
    ///
    /// # Safety
    /// `to` is a place for a tile, and the instructions of `S` exist.
    #[inline(always)]
    unsafe fn write(&self, block: usize, to: *mut Tile<S>) {
        // SAFETY: the caller's promise.
        unsafe {
            let scale = S::to_f32(byte::<S>(self.scales[block / 4], block % 4));
            let min = S::to_f32(byte::<S>(self.mins[block / 4], block % 4));
            (*to).scale[0] = S::mul(self.d, scale);
            (*to).min[0] = S::mul(self.minus_dmin, min);
        }
    }
}

/// See [`BlockQ4K`].
pub(in super::super) struct Q4K;

impl Format for Q4K {
    const DTYPE: DType = DType::Q4_K;
    type Coding = codings::U4Min;
    const DIRECT: bool = true;
    const GROUP: usize = 2;
    type Header<S: Vectors> = Scales<S>;

    #[inline(always)]
    unsafe fn header<S: Vectors>(block: Rows) -> Scales<S> {
        // SAFETY: the caller's promise.
        unsafe { Scales::read(block) }
    }

    /// 32 bytes hold the codes of one block of 32 in their low halves, of the next in the high.
    #[inline(always)]
    unsafe fn unpack<S: Vectors>(block: Rows, scales: &Scales<S>, group: usize, to: *mut Tile<S>) {
        // SAFETY: the fields lie inside of the block, and there is room for two tiles.
        unsafe {
            let bytes = load32::<S>(block.at(offset_of!(BlockQ4K, qs) + 32 * group));
            for half in 0..2 {
                let to = to.add(half);
                (*to).codes = bits8::<S>(bytes, 4 * half as u32, 4);
                scales.write(2 * group + half, to);
            }
        }
    }
}

/// See [`BlockQ5K`].
pub(in super::super) struct Q5K;

impl Format for Q5K {
    const DTYPE: DType = DType::Q5_K;
    type Coding = codings::U5Min;
    const DIRECT: bool = true;
    const GROUP: usize = 2;
    /// Also the fifth bits: bit b of byte l is that of column l of block b of 32.
    type Header<S: Vectors> = (Scales<S>, [S::I; 8]);

    #[inline(always)]
    unsafe fn header<S: Vectors>(block: Rows) -> Self::Header<S> {
        // SAFETY: the caller's promise; the field lies inside of the block.
        unsafe { (Scales::read(block), load32::<S>(block.at(offset_of!(BlockQ5K, qh)))) }
    }

    /// As Q4_K, with the fifth bits.
    #[inline(always)]
    unsafe fn unpack<S: Vectors>(
        block: Rows,
        (scales, fifth): &Self::Header<S>,
        group: usize,
        to: *mut Tile<S>,
    ) {
        // SAFETY: the fields lie inside of the block, and there is room for two tiles.
        unsafe {
            let bytes = load32::<S>(block.at(offset_of!(BlockQ5K, qs) + 32 * group));
            for half in 0..2 {
                let to = to.add(half);
                let index = 2 * group + half;
                let codes = bits8::<S>(bytes, 4 * half as u32, 4);
                (*to).codes = with_bits8::<S>(codes, fifth, index as u32, 1, 4);
                scales.write(index, to);
            }
        }
    }
}
