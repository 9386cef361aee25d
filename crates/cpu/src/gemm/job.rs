//! Matrices, the destinations of their products, and the operands of kernels.

use std::ops::Range;

use pelton_graph::Phase;
use pelton_quant::DType;

use super::activations::Block;
use super::pack::{self, Panels};
use crate::pool::SharedMut;

/// A matrix `[rows, cols]` in its stored format: rows of blocks, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct MatrixRef<'a> {
    dtype: DType,
    rows: usize,
    cols: usize,
    bytes: &'a [u8],
    packed: Option<Panels>,
    one_phase: bool,
}

/// The reason why bytes are not a matrix of some shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MatrixError {
    /// Rows must consist of whole blocks.
    #[error("a row of {cols} columns is not a whole number of {dtype} blocks of {}", dtype.block_len())]
    Cols {
        /// The stored type.
        dtype: DType,
        /// Columns of the matrix.
        cols: usize,
    },
    /// The length must be that of the shape.
    #[error("a {rows} x {cols} matrix of {dtype} does not have {bytes} bytes")]
    Bytes {
        /// The stored type.
        dtype: DType,
        /// Rows of the matrix.
        rows: usize,
        /// Columns of the matrix.
        cols: usize,
        /// Bytes given.
        bytes: usize,
    },
    /// Matrices have whole panels, and only some types have kernels for them.
    #[error("{rows} rows of {dtype} cannot be packed in panels of {}", panels.rows())]
    Packed {
        /// The stored type.
        dtype: DType,
        /// Rows of the matrix.
        rows: usize,
        /// The rows of a panel.
        panels: Panels,
    },
}

impl<'a> MatrixRef<'a> {
    /// A matrix of `rows` rows of `cols` elements each, at least one, at any address.
    ///
    /// # Errors
    /// If a row is no whole number of blocks, or the shape has another number of bytes.
    pub fn new(
        dtype: DType,
        rows: usize,
        cols: usize,
        bytes: &'a [u8],
    ) -> Result<Self, MatrixError> {
        let row_bytes = dtype.bytes_of(cols).filter(|_| cols > 0);
        let row_bytes = row_bytes.ok_or(MatrixError::Cols { dtype, cols })?;
        if row_bytes.checked_mul(rows) != Some(bytes.len()) {
            return Err(MatrixError::Bytes { dtype, rows, cols, bytes: bytes.len() });
        }
        Ok(Self { dtype, rows, cols, bytes, packed: None, one_phase: false })
    }

    /// A matrix whose rows have been packed in panels ([`pack`](super::pack())) of so many rows.
    ///
    /// # Errors
    /// As [`new`](Self::new), and if rows of that type and number cannot be packed.
    pub fn packed(
        dtype: DType,
        rows: usize,
        cols: usize,
        bytes: &'a [u8],
        panels: Panels,
    ) -> Result<Self, MatrixError> {
        if !pack::can_pack(dtype, rows, panels) {
            return Err(MatrixError::Packed { dtype, rows, panels });
        }
        Ok(Self { packed: Some(panels), ..Self::new(dtype, rows, cols, bytes)? })
    }

    /// The same with the kernels of decoding in every phase, for a matrix of few rows on which
    /// prompts spend little.
    #[must_use]
    pub fn in_one_phase(self) -> Self {
        Self { one_phase: true, ..self }
    }

    /// The phase whose kernels multiply it with rows of a phase.
    pub(super) fn phase(&self, of_rows: Phase) -> Phase {
        if self.one_phase { Phase::Decode } else { of_rows }
    }

    /// The panels in which its rows are packed, if they are.
    pub fn panels(&self) -> Option<Panels> {
        self.packed
    }

    /// The stored type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Rows: the number of outputs of the product.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns: the number of inputs.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The bytes of all rows.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// The destination of a product `[batch, rows]`.
#[derive(Clone, Copy, Debug)]
pub struct Output<'a> {
    /// Result `n` of activation row `r` goes to index `r * stride + n`.
    pub values: SharedMut<'a, f32>,
    /// Distance between the results of two activation rows, at least the matrix's rows.
    pub stride: usize,
    /// Summands of the results, one for each row of the matrix.
    pub bias: Option<&'a [f32]>,
    /// Whether results are added to the values instead of replacing them.
    pub accumulate: bool,
}

/// The rows of a product: activation rows of any order, and their rows in the destination.
#[derive(Clone, Copy, Debug)]
pub struct Picked<'a> {
    /// The index of each activation row.
    pub inputs: &'a [u32],
    /// The index of the result of each, as many; different ones.
    pub outputs: &'a [u32],
}

/// Rows of a matrix to whose multiples a partition between threads is best aligned
/// ([`split`](crate::pool::split)).
pub const ROW_ALIGN: usize = 32;

/// The operands of a kernel, checked by [`matmul`](super::matmul).
///
/// The promises: `weights` points at `matrix_rows` rows of `row_bytes` bytes, of `row_blocks`
/// blocks or `cols` elements each, and `rows` lies within them. `blocks` or `floats`, whichever the
/// format multiplies, points at `batch` rows of as many. Their chunks are `chunk_stride` blocks (or
/// 32 times as many elements) apart, and no thread writes them. Picked rows are among them, and as
/// many as `batch`. No other thread accesses the results of `rows`.
pub(super) struct Job<'a> {
    pub(super) weights: *const u8,
    pub(super) matrix_rows: usize,
    pub(super) row_bytes: usize,
    /// Whether the rows are packed in panels.
    pub(super) packed: bool,
    pub(super) cols: usize,
    pub(super) row_blocks: usize,
    pub(super) chunk_stride: usize,
    /// Blocks (or 32 elements) from one activation row of a chunk to the next.
    pub(super) pitch: usize,
    pub(super) blocks: *const Block,
    pub(super) floats: *const f32,
    /// The phase of the activation rows, which decides the kernels of products in f32.
    pub(super) phase: Phase,
    pub(super) batch: usize,
    /// The activation rows of the batch and their results, if they are not the first ones.
    pub(super) picked: Option<Picked<'a>>,
    pub(super) rows: Range<usize>,
    pub(super) output: Output<'a>,
}

impl Job<'_> {
    /// The index of result `n` of row `row` of the batch.
    #[inline(always)]
    pub(super) fn place(&self, row: usize, n: usize) -> usize {
        let row = match self.picked {
            None => row,
            Some(picked) => picked.outputs[row] as usize,
        };
        row * self.output.stride + n
    }

    /// The address of result `n` of row `row` of the batch, or of the last row if there are fewer.
    #[inline(always)]
    pub(super) fn address(&self, row: usize, n: usize) -> *const u8 {
        self.output.values.address(self.place(row.min(self.batch - 1), n)).cast()
    }

    /// Chunk `chunk` of `MR` activation rows from `row` on, where `units` are the blocks or the
    /// elements. Rows beyond the last repeat it; their results are dropped.
    ///
    /// # Safety
    /// The units are the job's, and there is such a chunk.
    #[inline(always)]
    pub(super) unsafe fn activation_rows<U, const MR: usize>(
        &self,
        units: *const U,
        row: usize,
        chunk: usize,
    ) -> [*const U; MR] {
        let mut rows = [units; MR];
        for (i, x) in rows.iter_mut().enumerate() {
            let mut row = (row + i).min(self.batch - 1);
            if let Some(picked) = self.picked {
                row = picked.inputs[row] as usize;
            }
            // SAFETY: the row is one of the batch.
            *x = unsafe { x.add(chunk * self.chunk_stride + row * self.pitch) };
        }
        rows
    }

    /// Writes results from column `first` on of activation row `row`.
    ///
    /// # Safety
    /// No other thread accesses these results.
    #[inline(always)]
    pub(super) unsafe fn output(&self, row: usize, first: usize, results: &[f32]) {
        let start = self.place(row, first);
        // SAFETY: the caller's promise.
        let to = unsafe { self.output.values.slice_mut(start..start + results.len()) };
        let bias = self.output.bias.map(|bias| &bias[first..][..results.len()]);
        for (i, (to, result)) in to.iter_mut().zip(results).enumerate() {
            let result = bias.map_or(*result, |bias| result + bias[i]);
            *to = if self.output.accumulate { *to + result } else { result };
        }
    }
}
