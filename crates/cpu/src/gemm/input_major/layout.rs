//! The places of lines and scales of a matrix in input-major order.
//!
//! A matrix is cut into *slabs* of up to 2048 outputs, as many as make the outputs of a thread. The
//! last is padded to a multiple of 128. A slab is `[blocks of 32 inputs]`. Each has the scales of
//! all outputs, then 32 lines of upper halves, plus 8, and 32 lines of lower halves.
//!
//! A line is made of 64 bytes for each 128 outputs. Byte `16 l + 4 k + i` of them holds outputs
//! `16 k + 4 l + i` and, in its upper half, that plus 64: four lines interleaved byte by byte in
//! vectors of any width then are the lanes of neighbouring outputs.

use memmap2::MmapMut;

use super::super::tile::BLOCK;

/// The most outputs of a slab: lines of a kilobyte, which CPUs read about as fast as a stream.
pub(super) const SLAB: usize = 2048;
/// Outputs to whose multiples slabs are padded, and a partition between threads is best aligned.
pub const OUTPUT_ALIGN: usize = 128;

/// Outputs of a slab of a matrix of `rows` rows whose outputs `threads` threads divide among them,
/// so that a thread reads whole lines: a multiple of [`OUTPUT_ALIGN`].
pub(super) fn outputs_of_slab(rows: usize, threads: usize) -> usize {
    let of_thread = rows.div_ceil(threads.max(1));
    of_thread.div_ceil(of_thread.div_ceil(SLAB).max(1)).next_multiple_of(OUTPUT_ALIGN)
}

/// Bytes of a line of `outputs` outputs.
pub(super) const fn line(outputs: usize) -> usize {
    outputs / 2
}

/// Bytes of the lines of one half of the codes of a block.
pub(super) const fn lines(outputs: usize) -> usize {
    BLOCK * line(outputs)
}

/// Bytes of a block of 32 inputs with its scales.
pub(super) const fn block(outputs: usize) -> usize {
    2 * outputs + 2 * lines(outputs)
}

/// A matrix `[rows, cols]` in input-major order, and the norms of its columns.
#[derive(Debug)]
pub struct InputMajor {
    pub(super) rows: usize,
    pub(super) cols: usize,
    /// Outputs of a slab, but for the last.
    pub(super) slab: usize,
    pub(super) bytes: MmapMut,
    /// The Euclidean norm of each column.
    pub(super) norms: Vec<f32>,
}

/// The first output of a slab, its outputs, and its first byte.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slab {
    pub(super) first: usize,
    /// A multiple of [`OUTPUT_ALIGN`].
    pub(super) outputs: usize,
    pub(super) start: usize,
}

impl InputMajor {
    /// Rows: the number of outputs of the product.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns: the number of inputs.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The Euclidean norm of each column `[cols]`.
    pub fn norms(&self) -> &[f32] {
        &self.norms
    }

    /// Bytes of a matrix; `None` if its rows are no whole blocks.
    pub fn bytes_of(rows: usize, cols: usize) -> Option<usize> {
        if rows == 0 || cols == 0 || !cols.is_multiple_of(BLOCK) {
            return None;
        }
        let outputs = rows.checked_next_multiple_of(OUTPUT_ALIGN)?;
        // every part is a whole number of bytes for each eight outputs
        block(8).checked_mul(cols / BLOCK)?.checked_mul(outputs / 8)
    }

    /// Slab `index`.
    pub(super) fn slab(&self, index: usize) -> Slab {
        let first = index * self.slab;
        let outputs = (self.rows - first).min(self.slab).next_multiple_of(OUTPUT_ALIGN);
        Slab { first, outputs, start: index * (self.cols / BLOCK) * block(self.slab) }
    }
}

/// The byte of a run of 64 outputs that holds output `output` of them.
pub(super) const fn byte_of(output: usize) -> usize {
    output / 4 % 4 * 16 + output / 16 * 4 + output % 4
}
