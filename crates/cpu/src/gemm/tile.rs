//! Tiles of unpacked weights, and the interface of block formats that unpack them.

#[cfg(target_arch = "x86_64")]
use std::marker::PhantomData;

use pelton_quant::DType;

use super::vectors::{Codes, Rows, Vectors};

/// Columns that share a scale in the activations: the block length common to all formats.
pub(super) const BLOCK: usize = 32;

/// Blocks of columns that products of many rows process at a time, a multiple of the formats'
/// blocks: activations are `[chunks, rows, CHUNK]` in memory.
pub(super) const CHUNK: usize = 16;

/// 32 columns of `LANES` rows, ready to be multiplied.
///
/// The value of a weight is `scale * (code - zero) + min`. Fields that the format lacks are neither
/// written nor read.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Tile<S: Vectors> {
    /// Vector i holds columns 4i to 4i+3, or those of [`Vectors::load_codes`].
    pub(super) codes: [S::I; 8],
    /// Behind the codes, which are signed.
    pub(super) magnitudes: S::Magnitudes,
    /// The scales of the first and the second 16 columns, or the first for all.
    pub(super) scale: [S::F; 2],
    /// The minima, as `scale`.
    pub(super) min: [S::F; 2],
}

/// How the tiles of a format code weights: all that the products of tiles depend on.
pub(super) trait Coding {
    /// The range of the codes.
    const CODES: Codes;
    /// The exponent of the power of two that unsigned codes are offset by, if they are.
    const ZERO: Option<u32>;
    /// Whether each half of a tile has its own scale and minimum.
    const HALVES: bool;
    /// Whether there are minima.
    const MIN: bool;
}

/// A block format, whose bytes are unpacked to tiles.
pub(super) trait Format {
    const DTYPE: DType;
    /// How the tiles code weights.
    type Coding: Coding;
    /// Whether there is a kernel for one activation row that unpacks into registers. Formats whose
    /// unpacking takes far longer than the products gain nothing from it.
    const DIRECT: bool;
    /// Whether blocks are those of packed rows.
    const PACKED: bool = false;
    /// Tiles whose bytes are interleaved, so that they are unpacked together; at most 4.
    const GROUP: usize;
    /// The scales and other fields that all groups of a block use.
    type Header<S: Vectors>: Copy;

    /// Reads the header of a block in each row.
    ///
    /// # Safety
    /// `block` is the start of a whole block of each row, and the instructions of `S` exist.
    unsafe fn header<S: Vectors>(block: Rows) -> Self::Header<S>;

    /// Writes the tiles of group `group` of the block to `to`.
    ///
    /// # Safety
    /// As for `header`; there is room for `GROUP` tiles at `to`, aligned.
    unsafe fn unpack<S: Vectors>(
        block: Rows,
        header: &Self::Header<S>,
        group: usize,
        to: *mut Tile<S>,
    );
}

/// A format whose rows are packed in panels (`pack`), as many as vectors have lanes.
#[cfg(target_arch = "x86_64")]
pub(super) struct Packed<F>(PhantomData<F>);

#[cfg(target_arch = "x86_64")]
impl<F: Format> Format for Packed<F> {
    const DTYPE: DType = F::DTYPE;
    type Coding = F::Coding;
    const DIRECT: bool = true;
    const PACKED: bool = true;
    const GROUP: usize = F::GROUP;
    type Header<S: Vectors> = F::Header<S>;

    #[inline(always)]
    unsafe fn header<S: Vectors>(block: Rows) -> Self::Header<S> {
        // SAFETY: the caller's promise.
        unsafe { F::header::<S>(block) }
    }

    #[inline(always)]
    unsafe fn unpack<S: Vectors>(
        block: Rows,
        header: &Self::Header<S>,
        group: usize,
        to: *mut Tile<S>,
    ) {
        // SAFETY: the caller's promise.
        unsafe { F::unpack::<S>(block, header, group, to) }
    }
}

/// Bytes from one block of rows to the next, and the rows as a kernel of the format reads them.
#[inline(always)]
pub(super) fn block_rows<S: Vectors, F: Format>(rows: Rows) -> (usize, Rows) {
    let bytes = F::DTYPE.block_bytes();
    match F::PACKED {
        true => (bytes * S::LANES, Rows { first: rows.first, stride: 4, packed: S::LANES }),
        false => (bytes, Rows { packed: 0, ..rows }),
    }
}
