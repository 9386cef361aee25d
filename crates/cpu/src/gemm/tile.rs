//! Tiles of unpacked weights, and the interface of block formats that unpack them.

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
    /// The scales of the first and the second 16 columns, or the first for all.
    pub(super) scale: [S::F; 2],
    /// The minima, as `scale`.
    pub(super) min: [S::F; 2],
}

/// A block format, whose bytes are unpacked to tiles.
pub(super) trait Format {
    const DTYPE: DType;
    /// The range of the codes.
    const CODES: Codes;
    /// The exponent of the power of two that unsigned codes are offset by, if they are.
    const ZERO: Option<u32>;
    /// Whether each half of a tile has its own scale and minimum.
    const HALVES: bool;
    /// Whether there are minima.
    const MIN: bool;
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
