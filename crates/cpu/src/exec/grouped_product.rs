//! The product of rows with one of many matrices each.

use std::ops::Range;

use pelton_graph::{Error, Plan, WeightId};

use crate::gemm::buckets::{self, Buckets, Selections};
use crate::gemm::{ActivationKind, Activations, Output, Picked, matmul_picked};
use crate::isa::Isa;
use crate::memory::{StoredMatrices, Weights};
use crate::pool::SharedMut;

/// The most matrices that a row is multiplied with in one region: a gate and an up linear.
pub(super) const PRODUCTS: usize = 2;

/// Matrices `[count, outputs, cols]` and the results of their products.
pub(super) struct GroupedProduct<'a> {
    matrices: StoredMatrices<'a>,
    /// The matrices with sorted buckets, if rows can be below 1.
    sorted: Option<&'a [Buckets]>,
    rows: usize,
    cols: usize,
    /// Those of a matrix.
    bytes: usize,
    /// `[count, outputs]`.
    bias: Option<&'a [f32]>,
    values: SharedMut<'a, f32>,
}

impl<'a> GroupedProduct<'a> {
    /// The product with the matrices of a weight.
    ///
    /// # Errors
    /// If the weight is no matrix, or its bias is one.
    pub(super) fn new(
        plan: &Plan,
        weights: &'a Weights,
        weight: WeightId,
        bias: Option<WeightId>,
        out: &'a mut [f32],
    ) -> Result<Self, Error> {
        let matrices = weights.matrices(plan, weight)?;
        let sorted = weights.sorted(weight);
        let bias = weights.optional(bias)?;
        let weight = plan.weight(weight);
        let (rows, cols) = (weight.rows, weight.row_len);
        // all matrices have the same size
        let first = matrices
            .matrix(0, rows, cols)
            .map_err(|e| Error::Matrix { tensor: weight.name.clone(), what: e.to_string() })?;
        let bytes = first.bytes().len();
        Ok(Self { matrices, sorted, rows, cols, bytes, bias, values: SharedMut::new(out) })
    }

    /// The results `[pairs, outputs]`.
    pub(super) fn values(&self) -> SharedMut<'a, f32> {
        self.values
    }

    /// Elements of a result.
    pub(super) fn outputs(&self) -> usize {
        self.rows
    }

    /// The bytes of one of its matrices.
    pub(super) fn bytes_of_matrix(&self) -> usize {
        self.bytes
    }

    /// Elements of a row that is multiplied.
    pub(super) fn inputs(&self) -> usize {
        self.cols
    }

    /// The sorted buckets of a matrix.
    pub(super) fn buckets(&self, index: usize) -> Option<&'a Buckets> {
        self.sorted?.get(index)
    }

    /// Whether rows can be below 1.
    pub(super) fn has_buckets(&self) -> bool {
        self.sorted.is_some()
    }

    /// The form of the rows that its matrices multiply.
    pub(super) fn kind(&self) -> ActivationKind {
        ActivationKind::of(self.matrices.dtype)
    }

    /// Multiplies picked rows with some outputs of a matrix.
    ///
    /// # Safety
    /// No other thread prepares the activations or accesses these results.
    pub(super) unsafe fn run(
        &self,
        isa: Isa,
        index: usize,
        activations: &Activations,
        picked: Picked<'_>,
        outputs: Range<usize>,
    ) {
        let Ok(matrix) = self.matrices.matrix(index, self.rows, self.cols) else { return };
        // SAFETY: the caller's promise.
        unsafe { matmul_picked(isa, &matrix, activations, picked, outputs, &self.output(index)) };
    }

    /// Multiplies selected ranks with some outputs of a matrix, to a row of the results.
    ///
    /// # Safety
    /// The ranks have been selected, and no other thread accesses these results.
    pub(super) unsafe fn run_live(
        &self,
        isa: Isa,
        (matrix, row): (usize, usize),
        selected: (&Selections, usize),
        outputs: Range<usize>,
    ) {
        let Some(buckets) = self.buckets(matrix) else { return };
        let output = self.output(matrix);
        // SAFETY: the caller's promise.
        unsafe { buckets::multiply(isa, buckets, selected, row, outputs, &output) };
    }

    /// The destination of the products with a matrix.
    fn output(&self, index: usize) -> Output<'_> {
        Output {
            values: self.values,
            stride: self.rows,
            bias: self.bias.map(|bias| &bias[index * self.rows..(index + 1) * self.rows]),
            accumulate: false,
        }
    }
}
