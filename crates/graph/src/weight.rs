//! The weights of a plan: tensors of the checkpoint, or ranges of them.

use pelton_quant::DType;
use pelton_weights::{Checkpoint, Tensor};

use crate::Error;

/// The use of a weight, which decides how a backend keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightKind {
    /// A norm, a bias or another small tensor `[row_len]`: decoded to f32 at load.
    Vector,
    /// A linear or an embedding table `[rows, row_len]`: kept in its stored format.
    Matrix,
    /// Matrices of equal shape `[count, rows, row_len]`: kept in their stored format.
    Matrices {
        /// Matrices: experts or heads.
        count: usize,
    },
}

/// A tensor of the checkpoint, or some rows of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weight {
    /// The tensor's name in the checkpoint.
    pub name: String,
    /// The stored format.
    pub dtype: DType,
    /// Its use.
    pub kind: WeightKind,
    /// Outputs of a linear, tokens of an embedding table; for a vector 1, or the number of heads
    /// whose factors `[rows, row_len / rows]` it holds.
    pub rows: usize,
    /// Elements of a row, or of a whole vector.
    pub row_len: usize,
    /// The range of a fused tensor that the weight is.
    pub part: Option<Part>,
    /// Whether rows can have an [`Effort`](crate::Effort) below 1 in products with it: of a matrix,
    /// set by [`Plan::with_effort`](crate::Plan::with_effort).
    pub marked: bool,
}

/// A range of a fused tensor, in rows, or of a vector, in elements. Several matrices have the same
/// range of rows each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The first row.
    pub first: usize,
    /// Rows of the tensor.
    pub of: usize,
}

impl Weight {
    /// The shape of its tensor in the checkpoint, the innermost dimension first.
    pub fn dims(&self) -> Vec<usize> {
        match self.kind {
            WeightKind::Vector if self.rows > 1 => vec![self.row_len / self.rows, self.rows],
            WeightKind::Vector => vec![self.part.map_or(self.row_len, |part| part.of)],
            WeightKind::Matrix => vec![self.row_len, self.tensor_rows()],
            WeightKind::Matrices { count } => vec![self.row_len, self.tensor_rows(), count],
        }
    }

    /// Its tensor. The innermost dimensions of the tensor may be several for the one of a row, as
    /// of the kernels of a convolution.
    ///
    /// # Errors
    ///
    /// If the tensor is missing or has another shape.
    pub fn tensor<'a>(&self, checkpoint: &'a Checkpoint) -> Result<Tensor<'a>, Error> {
        let dims = self.dims();
        match checkpoint.tensor(&self.name) {
            Some(tensor) if merges(tensor.shape, &dims) => Ok(tensor),
            _ => Ok(checkpoint.require(&self.name, &dims)?),
        }
    }

    /// The first of its rows, of a vector the first of its elements, in the tensor.
    pub fn first(&self) -> usize {
        self.part.map_or(0, |part| part.first)
    }

    /// Rows of its tensor, of one matrix.
    pub fn tensor_rows(&self) -> usize {
        self.part.map_or(self.rows, |part| part.of)
    }

    /// Number of matrices; 1 for a vector.
    pub fn count(&self) -> usize {
        match self.kind {
            WeightKind::Vector | WeightKind::Matrix => 1,
            WeightKind::Matrices { count } => count,
        }
    }

    /// Whether it is one or several matrices.
    pub fn is_matrix(&self) -> bool {
        match self.kind {
            WeightKind::Vector => false,
            WeightKind::Matrix | WeightKind::Matrices { .. } => true,
        }
    }

    /// Its elements, of all matrices.
    pub fn len(&self) -> usize {
        match self.kind {
            WeightKind::Vector => self.row_len,
            WeightKind::Matrix | WeightKind::Matrices { .. } => {
                self.count().saturating_mul(self.rows).saturating_mul(self.row_len)
            }
        }
    }

    /// Whether it has no elements, which no checkpoint allows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Whether `dims` are those of `shape` with some of the innermost ones as one.
fn merges(shape: &[usize], dims: &[usize]) -> bool {
    let Some((row_len, rest)) = dims.split_first() else { return false };
    shape.len().checked_sub(rest.len()).is_some_and(|inner| {
        let (inner, outer) = shape.split_at(inner);
        let product = inner.iter().try_fold(1usize, |product, &dim| product.checked_mul(dim));
        product == Some(*row_len) && outer == rest
    })
}
