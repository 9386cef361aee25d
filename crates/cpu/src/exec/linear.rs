//! Matrix products of rows that are normed and quantized first.

use std::ops::Range;

use arrayvec::ArrayVec;
use pelton_graph::{Error, Limits, Linear, Op, Phase, Plan};

use super::norms::{NormRow, NormWeights};
use crate::effort::{EffortWeights, LiveInputs, Order};
pub(super) use crate::effort::{Efforts, PRODUCTS};
use crate::gemm::buckets::{self, BUCKET_OUTPUTS};
use crate::gemm::input_major::{self, OUTPUT_ALIGN, Task};
use crate::gemm::{
    self, ActivationKind, Activations, MatrixError, MatrixRef, Output, Picked, ROW_ALIGN,
};
use crate::isa::Isa;
use crate::memory::{AlignedBuf, Weights};
use crate::pool::{Pool, SharedMut, span};
use crate::simd::dispatch;

/// A matrix `[outputs, cols]` and the buffer `[rows, outputs]` of its products.
pub(super) struct Product<'a> {
    /// Row by row, or in panels of rows.
    matrix: MatrixRef<'a>,
    /// The order for rows below 1.
    order: Option<Order<'a>>,
    output: Output<'a>,
    /// Whether few full rows read what rows below 1 read, because there is no memory for both.
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
        let matrix = weights.matrices(plan, id)?.matrix(0, weight.rows, weight.row_len);
        let what = |error: MatrixError| error.to_string();
        let matrix = matrix
            .map_err(|error| Error::Matrix { tensor: weight.name.clone(), what: what(error) })?;
        let order = match weights.marked(id) {
            Some(EffortWeights::Lines(lines)) => Some(Order::Lines(&lines.0, &lines.1)),
            Some(EffortWeights::Buckets(all)) => all.first().map(Order::Buckets),
            None => None,
        };
        let output = Output {
            values: SharedMut::new(out),
            stride: weight.rows,
            bias: weights.optional(bias)?,
            accumulate,
        };
        let saves_memory = matches!(order, Some(Order::Lines(..))) && !weights.keeps_rows();
        Ok(Self { matrix, order, output, saves_memory })
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
    /// The live inputs of rows below 1.
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

    /// Weights that rows below 1 multiplied since the load, and all weights of their
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

    /// Multiplies the rows of `x` `[rows, cols]`, normed first if there is a norm, with every
    /// matrix `[outputs, cols]`. A thread that has computed a part of the outputs of all products
    /// calls `finish` with that part of the first matrix's.
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
        let orders: ArrayVec<_, PRODUCTS> =
            products.iter().take(PRODUCTS).map(|product| product.order).collect();
        let has_marked = orders.iter().any(Option::is_some);
        let align = |order: &Order<'_>| match order {
            Order::Lines(..) => OUTPUT_ALIGN,
            Order::Buckets(_) => BUCKET_OUTPUTS,
        };
        let align = orders.iter().flatten().map(align).max().unwrap_or(ROW_ALIGN);
        let saves_memory = products.iter().any(|product| product.saves_memory);
        live.begin(has_marked, saves_memory, rows, efforts);
        let operands = Operands { isa, activations: &self.activations, live: &*live, rows };
        let used = |a: &&Activations| {
            products.iter().any(|p| ActivationKind::of(p.matrix.dtype()) == a.kind())
        };
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
                let bytes = products.iter().map(|p| p.matrix.bytes().len()).sum();
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
                    live.choose(isa, worker, strip.clone(), x, &orders, &of_kind);
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

    /// Multiplies a strip of rows with the matrix of product number `index`: a thread's partition
    /// of the outputs. Full rows are multiplied with the first strip.
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
        let (isa, Product { matrix, order, output, .. }) = (self.isa, product);
        let Some(activations) = self.of_kind(ActivationKind::of(matrix.dtype())) else { return };
        let Some(order) = order else {
            if strip.start == 0 {
                // SAFETY: by the caller.
                unsafe { gemm::matmul(isa, matrix, activations, self.rows, outputs, output) };
            }
            return;
        };
        let (dense, live) = self.live.rows(strip);
        let picked = Picked { inputs: dense, outputs: dense };
        // SAFETY: by the caller; so below.
        unsafe {
            let all = outputs.clone();
            gemm::matmul_picked(isa, matrix, activations, picked, all, output);
        }
        match order {
            Order::Buckets(buckets) => {
                let Some((all, first)) = self.live.selections(index) else { return };
                for (i, &row) in live.iter().enumerate() {
                    let (of, row) = ((all, first + i), row as usize);
                    // SAFETY: as above.
                    unsafe { buckets::multiply(isa, buckets, of, row, outputs.clone(), output) };
                }
            }
            Order::Lines(matrix, _) => {
                let Some(lists) = self.live.lists(index) else { return };
                let task = Task { matrix, activations, live, lists, output: *output };
                // SAFETY: as above.
                unsafe { input_major::multiply(isa, &task, outputs) };
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
