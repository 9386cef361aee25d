//! Matrix products of rows that are normed and quantized first.

use std::ops::Range;

use arrayvec::ArrayVec;
use pelton_graph::{EffortCurve, Error, Limits, Linear, Op, Phase, Plan};

use super::effort::{Efforts, LiveInputs, Marked, Order, PRODUCTS};
use super::norms::{NormRow, NormWeights};
use crate::gemm::buckets::{self, BUCKET_OUTPUTS, Buckets};
use crate::gemm::input_major::{self, InputMajor, OUTPUT_ALIGN, Task};
use crate::gemm::{
    self, ActivationKind, Activations, MatrixError, MatrixRef, Output, Picked, ROW_ALIGN,
};
use crate::isa::Isa;
use crate::memory::{AlignedBuf, Kept, Weights};
use crate::pool::{Pool, SharedMut, span};
use crate::simd::dispatch;

/// A matrix `[outputs, cols]` in one of its orders.
#[derive(Clone, Copy)]
enum Matrix<'a> {
    /// Row by row, or in panels of rows.
    Rows(MatrixRef<'a>),
    /// Input by input, and row by row for rows of effort 1.
    Lines(&'a InputMajor, MatrixRef<'a>, &'a EffortCurve),
    /// Row by row for rows of effort 1, and with sorted buckets for others.
    Buckets(MatrixRef<'a>, &'a Buckets, &'a EffortCurve),
}

impl Matrix<'_> {
    fn rows(&self) -> usize {
        match self {
            Self::Rows(matrix) | Self::Buckets(matrix, ..) => matrix.rows(),
            Self::Lines(lines, ..) => lines.rows(),
        }
    }

    fn cols(&self) -> usize {
        match self {
            Self::Rows(matrix) | Self::Buckets(matrix, ..) => matrix.cols(),
            Self::Lines(lines, ..) => lines.cols(),
        }
    }

    /// The bytes of its rows.
    fn bytes(&self) -> usize {
        match self {
            Self::Rows(matrix) | Self::Lines(_, matrix, _) | Self::Buckets(matrix, ..) => {
                matrix.bytes().len()
            }
        }
    }

    /// The activations that it is multiplied with.
    fn kind(&self) -> ActivationKind {
        ActivationKind::of(match self {
            Self::Rows(matrix) | Self::Buckets(matrix, ..) => matrix.dtype(),
            Self::Lines(lines, ..) => lines.dtype(),
        })
    }
}

/// A matrix `[outputs, cols]` and the buffer `[rows, outputs]` of its products.
pub(super) struct Product<'a> {
    matrix: Matrix<'a>,
    output: Output<'a>,
    /// Whether few rows of effort 1 read what rows below 1 read, because there is no memory for both.
    saves_memory: bool,
}

impl<'a> Product<'a> {
    /// The product with a linear's matrix, written to `out` or, with `accumulate`, added to it.
    ///
    /// # Errors
    /// If the linear's weight is not a matrix, or its bias not a vector.
    pub(super) fn new(
        plan: &Plan,
        weights: &'a Weights,
        linear: &Linear,
        out: &'a mut [f32],
        accumulate: bool,
    ) -> Result<Self, Error> {
        let &Linear { weight: id, bias } = linear;
        let weight = plan.weight(id);
        let rows = || {
            let matrix = weights.matrices(plan, id)?;
            let matrix = matrix.matrix(0, weight.rows, weight.row_len);
            let what = |error: MatrixError| error.to_string();
            matrix.map_err(|error| Error::Matrix { tensor: weight.name.clone(), what: what(error) })
        };
        let matrix = match weights.marked(id) {
            Some((Kept::Lines(lines), curve)) => Matrix::Lines(lines, rows()?, curve),
            Some((Kept::Buckets(all), curve)) => match all.first() {
                Some(buckets) => Matrix::Buckets(rows()?, buckets, curve),
                None => Matrix::Rows(rows()?),
            },
            None => Matrix::Rows(rows()?),
        };
        let output = Output {
            values: SharedMut::new(out),
            stride: weight.rows,
            bias: weights.optional(bias)?,
            accumulate,
        };
        let saves_memory = matches!(matrix, Matrix::Lines(..)) && !weights.keeps_rows();
        Ok(Self { matrix, output, saves_memory })
    }

    /// The buffer of the products.
    pub(super) fn values(&self) -> SharedMut<'a, f32> {
        self.output.values
    }
}

/// The memory of products besides their matrices.
pub(super) struct Multiplier {
    isa: Isa,
    /// Activations in each form that the plan's matrices multiply.
    activations: Vec<Activations>,
    /// Normed rows, before they become activations.
    normed: AlignedBuf,
    /// The live inputs of rows of an effort below 1.
    live: LiveInputs,
}

impl Multiplier {
    /// Allocates for the widest matrices of a plan.
    ///
    /// # Errors
    /// [`Error::Memory`] if the system refuses the memory.
    pub(super) fn new(
        plan: &Plan,
        limits: &Limits,
        isa: Isa,
        threads: usize,
    ) -> Result<Self, Error> {
        let rows = limits.rows.max(limits.wants);
        let mut activations = Vec::new();
        for (kind, cols) in widest(plan) {
            activations.push(Activations::new(kind, rows, cols)?);
        }
        let normed = AlignedBuf::zeroed("normed rows", rows, widest_norm(plan))?;
        let live = LiveInputs::new(plan, rows, threads)?;
        Ok(Self { isa, activations, normed, live })
    }

    /// Weights that rows of an effort below 1 multiplied since the load, and all weights of their
    /// matrices.
    pub(super) fn multiplied(&self) -> [f64; 2] {
        self.live.multiplied()
    }

    /// Begins a pass over rows of a phase.
    pub(super) fn begin(&mut self, phase: Phase) {
        self.activations.iter_mut().for_each(|activations| activations.set_phase(phase));
    }

    /// Bytes that [`new`](Self::new) allocates.
    pub(super) fn bytes(plan: &Plan, limits: &Limits, threads: usize) -> u128 {
        let rows = limits.rows.max(limits.wants);
        let activations = widest(plan).map(|(kind, cols)| Activations::bytes(kind, rows, cols));
        let others = AlignedBuf::bytes(rows, widest_norm(plan));
        let others = others.saturating_add(LiveInputs::bytes(plan, threads));
        activations.fold(others, u128::saturating_add)
    }

    /// Multiplies the rows of `x` `[rows, cols]`, normed first if there is a norm, with every matrix
    /// `[outputs, cols]`. A thread that has computed a part of the outputs of all products calls
    /// `finish` with that part of the first matrix's.
    pub(super) fn run<'a>(
        &mut self,
        pool: &Pool,
        norm: Option<NormWeights<'_>>,
        x: &[f32],
        products: &[Product<'a>],
        efforts: Efforts<'_>,
        finish: impl Fn(Range<usize>) + Sync,
    ) {
        let Some(first) = products.first() else { return };
        let cols = first.matrix.cols();
        let rows = x.len() / cols;
        let units = Activations::units(rows, cols);
        let normed = SharedMut::new(&mut self.normed);
        let (isa, live) = (self.isa, &mut self.live);
        let marked = |product: &Product<'a>| match product.matrix {
            Matrix::Rows(_) => None,
            Matrix::Lines(lines, _, curve) => Some(Marked { matrix: Order::Lines(lines), curve }),
            Matrix::Buckets(_, buckets, curve) => {
                Some(Marked { matrix: Order::Buckets(buckets), curve })
            }
        };
        let matrices: ArrayVec<_, PRODUCTS> = products.iter().take(PRODUCTS).map(marked).collect();
        let has_lines = matrices.iter().any(Option::is_some);
        let align = match matrices.iter().flatten().next() {
            None => ROW_ALIGN,
            Some(Marked { matrix: Order::Lines(_), .. }) => OUTPUT_ALIGN,
            Some(Marked { matrix: Order::Buckets(_), .. }) => BUCKET_OUTPUTS,
        };
        let saves_memory = products.iter().any(|product| product.saves_memory);
        live.begin(has_lines, saves_memory, rows, efforts);
        let operands = Operands { isa, activations: &self.activations, live: &*live, rows };
        let used = |a: &&Activations| products.iter().any(|p| p.matrix.kind() == a.kind());
        pool.run(|worker| {
            let mut x = x;
            if let Some(norm) = norm {
                for r in worker.split(rows, 1) {
                    let place = r * cols..(r + 1) * cols;
                    // SAFETY: one thread computes a row.
                    let y = unsafe { normed.slice_mut(place.clone()) };
                    dispatch(isa, NormRow { x: Some(&x[place]), norm, y });
                }
                worker.barrier();
                // SAFETY: all rows have been written, and are not written again in this region.
                x = unsafe { normed.slice(0..rows * cols) };
            }
            for activations in operands.activations.iter().filter(used) {
                // SAFETY: one thread prepares a unit, and products read it after the barrier.
                unsafe { activations.prepare(x, cols, worker.split(units, 1)) };
            }
            worker.barrier();
            if operands.live.is_empty() {
                let units = products.iter().map(|p| p.matrix.rows().div_ceil(align)).max();
                let bytes = products.iter().map(|p| p.matrix.bytes()).sum();
                let parts = worker.parts(units.unwrap_or(0), bytes);
                return worker.share(parts, |of| {
                    for (index, product) in products.iter().enumerate() {
                        let outputs = span(product.matrix.rows(), align, &of, parts);
                        // SAFETY: activations are complete, and one thread computes an output.
                        unsafe { operands.multiply((index, product), 0..0, outputs) };
                    }
                    finish(span(first.matrix.rows(), align, &of, parts));
                });
            }
            for strip in operands.live.strips() {
                let of_kind = |kind| operands.of_kind(kind);
                // SAFETY: all threads choose for the same rows, which have been prepared, and none
                // multiplies them before the barrier.
                unsafe {
                    let live = operands.live;
                    live.choose(isa, worker, strip.clone(), x, &matrices, &of_kind);
                }
                worker.barrier();
                for (index, product) in products.iter().enumerate() {
                    let outputs = worker.split(product.matrix.rows(), align);
                    // SAFETY: activations and live inputs are complete, and one thread computes an
                    // output.
                    unsafe { operands.multiply((index, product), strip.clone(), outputs) };
                }
                worker.barrier();
            }
            finish(worker.split(first.matrix.rows(), align));
        });
    }
}

/// The rows of a pass, as products read them.
struct Operands<'r> {
    isa: Isa,
    activations: &'r [Activations],
    live: &'r LiveInputs,
    rows: usize,
}

impl<'r> Operands<'r> {
    fn of_kind(&self, kind: ActivationKind) -> Option<&'r Activations> {
        self.activations.iter().find(|activations| activations.kind() == kind)
    }

    /// Multiplies a strip of rows with the matrix of product number `index`: a thread's partition of
    /// the outputs. Rows of effort 1 are multiplied with the first strip.
    ///
    /// # Safety
    /// The activations and the live inputs of the strip are complete, and no other thread computes
    /// these outputs.
    unsafe fn multiply(
        &self,
        (index, product): (usize, &Product<'_>),
        strip: Range<usize>,
        outputs: Range<usize>,
    ) {
        let (isa, Product { matrix, output, .. }) = (self.isa, product);
        let Some(activations) = self.of_kind(matrix.kind()) else { return };
        match matrix {
            Matrix::Rows(_) if strip.start > 0 => {}
            Matrix::Rows(matrix) => {
                // SAFETY: by the caller.
                unsafe { gemm::matmul(isa, matrix, activations, self.rows, outputs, output) };
            }
            Matrix::Buckets(matrix, buckets, _) => {
                let (dense, live_rows) = self.live.rows(strip);
                let picked = Picked { inputs: dense, outputs: dense };
                // SAFETY: by the caller.
                unsafe {
                    let all = outputs.clone();
                    gemm::matmul_picked(isa, matrix, activations, picked, all, output);
                    let Some((all, first)) = self.live.selections(index) else { return };
                    for (i, &row) in live_rows.iter().enumerate() {
                        let (of, row) = ((all, first + i), row as usize);
                        buckets::multiply(isa, buckets, of, row, outputs.clone(), output);
                    }
                }
            }
            Matrix::Lines(lines, matrix, _) => {
                let (dense, live) = self.live.rows(strip);
                let picked = Picked { inputs: dense, outputs: dense };
                let Some(lists) = self.live.lists(index) else { return };
                let task = Task { matrix: lines, activations, live, lists, output: *output };
                // SAFETY: by the caller.
                unsafe {
                    let all = outputs.clone();
                    gemm::matmul_picked(isa, matrix, activations, picked, all, output);
                    input_major::multiply(isa, &task, outputs);
                }
            }
        }
    }
}

/// The forms of activations that the matrices of a plan multiply, and the most columns of each.
fn widest(plan: &Plan) -> impl Iterator<Item = (ActivationKind, usize)> {
    [ActivationKind::I8, ActivationKind::F32].into_iter().filter_map(|kind| {
        let matrices = plan.weights.iter().filter(|w| w.is_matrix());
        let of_kind = matrices.filter(|w| ActivationKind::of(w.dtype) == kind);
        of_kind.map(|w| w.row_len).max().map(|cols| (kind, cols))
    })
}

/// Elements of the longest row that is normed before a product.
fn widest_norm(plan: &Plan) -> usize {
    let width = |op: &Op| match op {
        Op::NormLinear { norm: _, linears } => {
            linears.iter().map(|linear| plan.weight(linear.weight).row_len).max().unwrap_or(0)
        }
        Op::NormGlu { norm: _, gate, up: _, gating: _ } => plan.weight(gate.weight).row_len,
        _ => 0,
    };
    plan.steps.iter().map(|step| width(&step.op)).max().unwrap_or(0)
}
