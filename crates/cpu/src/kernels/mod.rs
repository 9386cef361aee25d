//! Products of activations with matrices in any stored format.
//!
//! [`matmul`] computes `out[r][n] = Σ_k W[n][k] x[r][k]` with `W` as it lies in the model file.
//! Weights in block formats are multiplied as integers, with activations in 8 bits; plain
//! numbers in f32. Everything is the same bit for bit for any instruction set ([`Isa`]), batch,
//! share of the rows and number of threads.
//!
//! `quantized.rs` and `float.rs` hold the loops, `formats/` how blocks are unpacked; both are
//! written in the vector operations of `simd.rs`, which each instruction set implements.

mod activations;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod dispatch;
mod float;
mod formats;
mod isa;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
mod prefetch;
mod quantized;
mod scratch;
mod simd;
#[cfg(test)]
mod tests;
mod tile;

use std::ops::Range;

use pelton_quant::DType;

pub use activations::{ActivationKind, Activations};
pub use isa::Isa;

use crate::pool::SharedMut;
use activations::Block;

/// A matrix in its stored form: rows of blocks, one behind the other.
#[derive(Clone, Copy, Debug)]
pub struct MatrixRef<'a> {
    dtype: DType,
    rows: usize,
    cols: usize,
    bytes: &'a [u8],
}

/// Why bytes are not a matrix of some shape.
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
}

impl<'a> MatrixRef<'a> {
    /// A matrix of `rows` rows of `cols` numbers each, at least one, at any address.
    ///
    /// # Errors
    /// If rows are not whole blocks or the number of bytes is not that of the shape.
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
        Ok(Self { dtype, rows, cols, bytes })
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

/// Where and how the results of a product are written.
#[derive(Clone, Copy, Debug)]
pub struct Output<'a> {
    /// Result `n` of activation row `r` goes to index `r * stride + n`.
    pub values: SharedMut<'a, f32>,
    /// Distance between the results of two activation rows, at least the matrix's rows.
    pub stride: usize,
    /// Added to the results: a number for each row of the matrix.
    pub bias: Option<&'a [f32]>,
    /// Whether to add the results to what is there instead of replacing it.
    pub accumulate: bool,
}

/// A shape that a share of work fits: rows of the results are best split between threads at
/// multiples of this ([`split`](crate::pool::split)).
pub const ROW_ALIGN: usize = 32;

/// What a kernel works on, checked by [`matmul`].
///
/// The promises: `weights` points at `matrix_rows` rows of `row_bytes` bytes, `row_blocks`
/// blocks or `cols` numbers each; `rows` lies within them; `blocks` or `floats`, whichever the
/// format takes, points at `batch` rows of as many, in chunks that are `chunk_stride` blocks (or 32
/// times as many numbers) apart, which nobody writes; and nobody else accesses the results of
/// `rows`.
struct Job<'a> {
    weights: *const u8,
    matrix_rows: usize,
    row_bytes: usize,
    cols: usize,
    row_blocks: usize,
    chunk_stride: usize,
    blocks: *const Block,
    floats: *const f32,
    batch: usize,
    rows: Range<usize>,
    output: Output<'a>,
}

impl Job<'_> {
    /// Where result `n` of activation row `row` is, or would be.
    fn address(&self, row: usize, n: usize) -> *const u8 {
        self.output.values.address(row * self.output.stride + n).cast()
    }

    /// Writes results from column `first` on of activation row `row`.
    ///
    /// # Safety
    /// Nobody else accesses these results.
    #[inline(always)]
    unsafe fn output(&self, row: usize, first: usize, results: &[f32]) {
        let start = row * self.output.stride + first;
        // SAFETY: the caller's promise.
        let to = unsafe { self.output.values.slice_mut(start..start + results.len()) };
        let bias = self.output.bias.map(|bias| &bias[first..][..results.len()]);
        for (i, (to, result)) in to.iter_mut().zip(results).enumerate() {
            let result = bias.map_or(*result, |bias| result + bias[i]);
            *to = if self.output.accumulate { *to + result } else { result };
        }
    }
}

/// Multiplies the first `batch` rows of activations with the rows `rows` of the matrix.
///
/// The activations must have been prepared in the form [`ActivationKind::of`] the matrix's type,
/// with as many columns as the matrix has. A row of activations with an infinity or a NaN gives
/// results that are not finite.
///
/// # Safety
/// While this runs no other thread writes these activations, nor accesses the results of `rows`.
///
/// # Panics
/// If the processor lacks `isa`, the activations are of the wrong kind or fewer than `batch`
/// rows fit them, `rows` reaches beyond the matrix, or the output is too short.
pub unsafe fn matmul(
    isa: Isa,
    matrix: &MatrixRef<'_>,
    activations: &Activations,
    batch: usize,
    rows: Range<usize>,
    output: &Output<'_>,
) {
    assert!(isa.is_available(), "this processor does not have {isa}");
    assert!(rows.end <= matrix.rows, "rows beyond the matrix");
    assert!(batch <= 1 || output.stride >= matrix.rows, "results of different rows overlap");
    assert!(output.bias.is_none_or(|bias| bias.len() == matrix.rows), "bias of another length");
    if rows.is_empty() || batch == 0 {
        return;
    }
    let kind = ActivationKind::of(matrix.dtype);
    assert_eq!(activations.kind(), kind, "activations of the wrong kind");
    assert!(activations.has_room(batch, matrix.cols), "more than the activations have room for");
    let job = Job {
        weights: matrix.bytes.as_ptr(),
        matrix_rows: matrix.rows,
        row_bytes: matrix.bytes.len() / matrix.rows,
        cols: matrix.cols,
        row_blocks: Activations::units(1, matrix.cols),
        chunk_stride: activations.chunk_stride(),
        blocks: activations.blocks(),
        floats: activations.floats(),
        batch,
        rows,
        output: *output,
    };
    // SAFETY: the instructions exist, the promises of `Job` are checked above or in
    // `MatrixRef::new`, or the caller's.
    unsafe { dispatch::run(isa, matrix.dtype, &job) }
}
