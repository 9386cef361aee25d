//! How weights reach the registers: panels of rows, unpacked a block of columns at a time.

use pelton_quant::DType;

use super::simd::{Codes, Simd};

/// Columns that share a scale in the activations: the common step of all block formats.
pub(super) const BLOCK: usize = 32;

/// Blocks of columns that products of many rows take at a time, a multiple of the formats'
/// blocks: activations lie in memory chunk by chunk, the rows of each side by side.
pub(super) const CHUNK: usize = 16;

/// The same place in `LANES` consecutive rows of a matrix.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    /// The place in the first row.
    pub(super) first: *const u8,
    /// Bytes from one row to the next; 0 puts one row into all lanes.
    pub(super) stride: usize,
}

impl Rows {
    /// The place some bytes further on in each row.
    ///
    /// # Safety
    /// It lies inside of the rows.
    #[inline(always)]
    pub(super) unsafe fn at(self, bytes: usize) -> Self {
        // SAFETY: the caller's promise.
        Self { first: unsafe { self.first.add(bytes) }, stride: self.stride }
    }
}

/// 32 columns of `LANES` rows, ready to be multiplied.
///
/// The value of a weight is `scale * (code - zero) + min`. Fields that the format does not have
/// are never written nor read.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Tile<S: Simd> {
    /// Vector i holds columns 4i to 4i+3, or what the set has there ([`Simd::load_codes`]).
    pub(super) codes: [S::I; 8],
    /// Of the first and the second 16 columns, or the first for all.
    pub(super) scale: [S::F; 2],
    /// As `scale`.
    pub(super) min: [S::F; 2],
}

/// A block format: how its bytes become tiles.
pub(super) trait Format {
    const DTYPE: DType;
    /// The range of the codes.
    const CODES: Codes;
    /// The (unsigned) code that stands for 0, as a power of two; else codes stand for themselves.
    const ZERO: Option<u32>;
    /// Whether each half of a tile has its own scale and minimum.
    const HALVES: bool;
    /// Whether there are minima.
    const MIN: bool;
    /// Tiles whose bytes are interleaved, so that they are unpacked together; at most 4.
    const GROUP: usize;
    /// What all groups of a block need.
    type Header<S: Simd>: Copy;

    /// Reads the header of a block in each row.
    ///
    /// # Safety
    /// `block` is the start of a whole block of each row, and the instructions of `S` exist.
    unsafe fn header<S: Simd>(block: Rows) -> Self::Header<S>;

    /// Writes the tiles of group `group` of the block to `to`.
    ///
    /// # Safety
    /// As for `header`; there is room for `GROUP` tiles at `to`, aligned.
    unsafe fn unpack<S: Simd>(
        block: Rows,
        header: &Self::Header<S>,
        group: usize,
        to: *mut Tile<S>,
    );
}
