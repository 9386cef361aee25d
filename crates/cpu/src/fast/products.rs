//! Matrix products of rows that are quantized, or normed and quantized, on the way.

use std::ops::Range;

use pelton_graph::{Error, Linear, Norm, Op, Plan};

use super::rows::NormRow;
use crate::{
    kernels::{self, ActivationKind, Activations, Isa, MatrixRef, Output, ROW_ALIGN},
    lines::Lines,
    pool::{Pool, SharedMut},
    simd::dispatch,
    state::Weights,
};

/// A matrix, and where its products go.
pub(super) struct Product<'a> {
    matrix: MatrixRef<'a>,
    output: Output<'a>,
}

impl<'a> Product<'a> {
    /// The product with a linear's matrix into (or, with `accumulate`, onto) `out`.
    pub(super) fn new(
        plan: &Plan,
        weights: &'a Weights,
        linear: &Linear,
        out: &'a mut [f32],
        accumulate: bool,
    ) -> Result<Self, Error> {
        let weight = plan.weight(linear.weight);
        let matrix = MatrixRef::new(
            weight.dtype,
            weight.rows,
            weight.row_len,
            weights.matrix(linear.weight),
        )
        .map_err(|error| Error::Matrix { tensor: weight.name.clone(), what: error.to_string() })?;
        let output = Output {
            values: SharedMut::new(out),
            stride: weight.rows,
            bias: linear.bias.map(|id| weights.vector(id)),
            accumulate,
        };
        Ok(Self { matrix, output })
    }

    /// Where the results are.
    pub(super) fn values(&self) -> SharedMut<'a, f32> {
        self.output.values
    }
}

/// What products need beside their matrices.
pub(super) struct Multiplier {
    isa: Isa,
    /// Activations in the forms that the plan's weights take.
    activations: Vec<Activations>,
    /// Normed rows, on their way to activations.
    normed: Lines,
}

impl Multiplier {
    pub(super) fn new(plan: &Plan, rows: usize, isa: Isa) -> Result<Self, Error> {
        let mut activations = Vec::new();
        for kind in [ActivationKind::I8, ActivationKind::F32] {
            let of_kind = plan.weights.iter().filter(|w| ActivationKind::of(w.dtype) == kind);
            if let Some(widest) = of_kind.filter(|w| w.rows > 1).map(|w| w.row_len).max() {
                activations.push(Activations::new(kind, rows, widest));
            }
        }
        let normed = plan.steps.iter().map(|step| match &step.op {
            Op::NormLinear { norm, .. } | Op::NormGlu { norm, .. } => {
                plan.weight(norm.weight).row_len
            }
            _ => 0,
        });
        let normed = Lines::zeroed(rows, normed.max().unwrap_or(0))?;
        Ok(Self { isa, activations, normed })
    }

    /// Multiplies the rows of `x`, normed first if there is a norm, with every matrix (all of the
    /// same number of columns). When a thread has its share of all results it calls `finish` with
    /// the share of the first matrix's outputs.
    pub(super) fn run(
        &mut self,
        pool: &Pool,
        norm: Option<(Norm, &[f32])>,
        x: &[f32],
        products: &[Product<'_>],
        finish: impl Fn(Range<usize>) + Sync,
    ) {
        let Some(first) = products.first() else { return };
        let cols = first.matrix.cols();
        let rows = x.len() / cols;
        let units = Activations::units(rows, cols);
        let normed = SharedMut::new(&mut self.normed);
        let isa = self.isa;
        let wanted = |a: &&Activations| {
            products.iter().any(|p| ActivationKind::of(p.matrix.dtype()) == a.kind())
        };
        pool.run(|worker| {
            let mut x = x;
            if let Some((norm, weight)) = norm {
                for r in worker.split(rows, 1) {
                    let place = r * cols..(r + 1) * cols;
                    // SAFETY: each row belongs to one thread.
                    let y = unsafe { normed.slice_mut(place.clone()) };
                    dispatch(isa, NormRow { x: &x[place], weight, norm, y });
                }
                worker.barrier();
                // SAFETY: all rows have been written, and nobody writes until all have finished.
                x = unsafe { normed.slice(0..rows * cols) };
            }
            for activations in self.activations.iter().filter(wanted) {
                // SAFETY: each unit belongs to one thread, and is read after the barrier only.
                unsafe { activations.prepare(x, cols, worker.split(units, 1)) };
            }
            worker.barrier();
            for Product { matrix, output } in products {
                let kind = ActivationKind::of(matrix.dtype());
                let share = worker.split(matrix.rows(), ROW_ALIGN);
                if let Some(activations) = self.activations.iter().find(|a| a.kind() == kind) {
                    // SAFETY: activations are complete, and each share belongs to one thread.
                    unsafe { kernels::matmul(isa, matrix, activations, rows, share, output) };
                }
            }
            finish(worker.split(first.matrix.rows(), ROW_ALIGN));
        });
    }
}
