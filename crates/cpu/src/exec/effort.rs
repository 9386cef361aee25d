//! The live inputs of the rows of a pass whose effort is below 1.

use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
};

use pelton_graph::{Effort, EffortCurve, EffortMode, Error, Plan, Rows};
use pelton_quant::BUCKET;

use crate::batch::Batch;
use crate::gemm::buckets::{Buckets, Selections};
use crate::gemm::input_major::{Chosen, InputMajor, LiveRows};
use crate::gemm::{ActivationKind, Activations};
use crate::isa::Isa;
use crate::pool::Worker;

/// Rows whose live inputs are chosen before they are multiplied.
const STRIP: usize = 8;

/// The efforts of the rows of a buffer.
#[derive(Clone, Copy)]
pub(super) struct Efforts<'a> {
    pub(super) batch: &'a Batch<'a>,
    pub(super) rows: Rows,
}

/// A matrix whose rows can have an effort below 1, and its fractions.
#[derive(Clone, Copy)]
pub(super) struct Marked<'a> {
    pub(super) matrix: Order<'a>,
    pub(super) curve: &'a EffortCurve,
}

/// The order of its weights.
#[derive(Clone, Copy)]
pub(super) enum Order<'a> {
    Lines(&'a InputMajor),
    Buckets(&'a Buckets),
}

impl Marked<'_> {
    fn cols(&self) -> usize {
        match self.matrix {
            Order::Lines(lines) => lines.cols(),
            Order::Buckets(buckets) => buckets.cols(),
        }
    }
}

/// The most matrices that one region multiplies.
pub(super) const PRODUCTS: usize = 8;

/// The live inputs of the rows of a step.
pub(super) struct LiveInputs {
    /// `[PRODUCTS, STRIP]` rows of live inputs; `None` for a plan without effort.
    lists: Option<LiveRows>,
    /// As many rows of selected ranks, of a plan with sorted buckets.
    selections: Option<Selections>,
    /// Whether no matrix is whole, so that no row is multiplied densely.
    is_partial: bool,
    /// The rows of effort 1, and the others.
    dense: Vec<u32>,
    live: Vec<u32>,
    /// The efforts of the others.
    efforts: Vec<Effort>,
    /// Weights that the others multiplied since the load, and all weights of their matrices, in halves
    /// of a weight.
    multiplied: [AtomicU64; 2],
}

impl LiveInputs {
    /// Allocates for steps over up to `rows` rows.
    ///
    /// # Errors
    /// [`Error::Memory`] if the system refuses the memory.
    pub(super) fn new(plan: &Plan, rows: usize, threads: usize) -> Result<Self, Error> {
        let is_bucket = plan.has_effort() && plan.effort.mode == EffortMode::Bucket;
        let most = widest(plan).into_iter().max().unwrap_or(0);
        let selections = is_bucket.then(|| Selections::new(PRODUCTS * STRIP, most, threads));
        let lists = (plan.has_effort() && !is_bucket).then(|| {
            let [blocks, floats] = widest(plan);
            let lists = LiveRows::new(PRODUCTS * STRIP, blocks, floats);
            let needed = Self::bytes(plan, threads);
            lists.ok_or(Error::Memory { what: "live inputs", needed, available: None })
        });
        let rows = if plan.has_effort() { rows } else { 0 };
        Ok(Self {
            lists: lists.transpose()?,
            selections,
            is_partial: is_bucket && plan.effort.ranks < BUCKET,
            dense: Vec::with_capacity(rows),
            live: Vec::with_capacity(rows),
            efforts: Vec::with_capacity(rows),
            multiplied: [const { AtomicU64::new(0) }; 2],
        })
    }

    /// Bytes that [`new`](Self::new) allocates, but for the lists of rows.
    pub(super) fn bytes(plan: &Plan, threads: usize) -> u128 {
        match plan.has_effort() {
            true if plan.effort.mode == EffortMode::Bucket => {
                let most = widest(plan).into_iter().max().unwrap_or(0);
                Selections::bytes(PRODUCTS * STRIP, most, threads)
            }
            true => {
                let [blocks, floats] = widest(plan);
                LiveRows::bytes(PRODUCTS * STRIP, blocks, floats)
            }
            false => 0,
        }
    }

    /// Weights that rows of an effort below 1 multiplied since the load, and all weights of their
    /// matrices.
    pub(super) fn multiplied(&self) -> [f64; 2] {
        self.multiplied.each_ref().map(|halves| halves.load(Ordering::Relaxed) as f64 / 2.0)
    }

    /// Counts halves of weights.
    fn count(&self, multiplied: u64, of: usize) {
        let [sum, all] = &self.multiplied;
        sum.fetch_add(multiplied, Ordering::Relaxed);
        all.fetch_add(of as u64, Ordering::Relaxed);
    }

    /// Sorts the rows of a step by whether they have effort 1. To save memory, few rows of effort 1 are among the
    /// others, with all inputs live, which has the same results.
    pub(super) fn begin(
        &mut self,
        has_lines: bool,
        saves_memory: bool,
        rows: usize,
        efforts: Efforts<'_>,
    ) {
        self.dense.clear();
        self.live.clear();
        self.efforts.clear();
        if !has_lines {
            return;
        }
        let is_dense = !self.is_partial && (!saves_memory || rows > STRIP);
        for row in 0..rows {
            let effort = efforts.batch.effort(efforts.rows, row);
            match effort.is_full() && is_dense {
                true => self.dense.push(row as u32),
                false => {
                    self.live.push(row as u32);
                    self.efforts.push(effort);
                }
            }
        }
    }

    /// Ranges of the rows of an effort below 1 that are chosen together: one that is empty if there
    /// are none.
    pub(super) fn strips(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let rows = self.live.len();
        (0..rows).step_by(STRIP).map(move |first| first..rows.min(first + STRIP))
    }

    /// Whether all rows are of effort 1.
    pub(super) fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// The rows of effort 1, which are multiplied with the first strip, and the others of a strip.
    pub(super) fn rows(&self, strip: Range<usize>) -> (&[u32], &[u32]) {
        let dense: &[u32] = if strip.start == 0 { &self.dense } else { &[] };
        (dense, &self.live[strip])
    }

    /// The live inputs of product `product`, and the first row of them.
    pub(super) fn lists(&self, product: usize) -> Option<(&LiveRows, usize)> {
        Some((self.lists.as_ref()?, product * STRIP))
    }

    /// The selected ranks of product `product`, and the first row of them.
    pub(super) fn selections(&self, product: usize) -> Option<(&Selections, usize)> {
        Some((self.selections.as_ref()?, product * STRIP))
    }

    /// Chooses the live inputs of a strip of rows of `x` `[rows, cols]` for the product with each
    /// matrix in input-major order, this thread's partition of them. `None` is a matrix in another
    /// order.
    ///
    /// # Safety
    /// All threads call it for the same rows, no thread multiplies them at the same time, and the
    /// activations have been prepared.
    pub(super) unsafe fn choose<'a>(
        &self,
        isa: Isa,
        worker: Worker<'_>,
        strip: Range<usize>,
        x: &[f32],
        matrices: &[Option<Marked<'_>>],
        of_kind: &impl Fn(ActivationKind) -> Option<&'a Activations>,
    ) {
        let count = strip.len();
        let Some(cols) = matrices.iter().flatten().map(Marked::cols).next() else {
            return;
        };
        // a row and a product can be of several threads, each of which compacts some chunks
        let chunks = LiveRows::units(cols);
        let units = worker.split(matrices.len() * count * chunks, 1);
        for task in units.start / chunks..units.end.div_ceil(chunks) {
            let (product, row) = (task / count, task % count);
            let Some(Marked { matrix, curve }) = matrices[product] else { continue };
            let at = strip.start + row;
            let from = self.live[at] as usize;
            let effort = self.efforts[at];
            let matrix = match (matrix, &self.selections) {
                (Order::Lines(matrix), _) => matrix,
                (Order::Buckets(buckets), Some(selections)) => {
                    // the thread of the first chunk selects all
                    if units.start <= task * chunks {
                        let (thread, x) = (worker.index(), &x[from * cols..(from + 1) * cols]);
                        let (to, all) = (product * STRIP + row, 2 * cols * buckets.rows());
                        // SAFETY: one thread selects a row for a product.
                        let fraction = unsafe {
                            selections.select(thread, to, buckets, x, curve.of(effort));
                            selections.fraction(to, buckets)
                        };
                        self.count((fraction * all as f64) as u64, all);
                    }
                    continue;
                }
                (Order::Buckets(_), None) => continue,
            };
            let Some(lists) = &self.lists else { continue };
            let kind = ActivationKind::of(matrix.dtype());
            let activations = match kind {
                ActivationKind::I8 => of_kind(kind).map(|activations| (activations, from)),
                ActivationKind::F32 => None,
            };
            let x = &x[from * cols..(from + 1) * cols];
            let chosen = Chosen { x, matrix, least: curve.least(effort), activations };
            let first = task * chunks;
            let part = units.start.max(first) - first..units.end.min(first + chunks) - first;
            let inputs = (part.len() * LiveRows::CHUNK).min(cols - part.start * LiveRows::CHUNK);
            // SAFETY: one thread compacts a chunk of a row for a product.
            let found = unsafe { lists.choose(isa, product * STRIP + row, &chosen, part) };
            let halves = if matrix.is_nested() { 1 } else { 2 };
            if !effort.is_full() {
                self.count(halves * found * matrix.rows() as u64, 2 * inputs * matrix.rows());
            }
        }
    }
}

/// The most inputs of a matrix in blocks, and in floats, whose rows can have an effort below 1.
fn widest(plan: &Plan) -> [usize; 2] {
    [ActivationKind::I8, ActivationKind::F32].map(|kind| {
        let marked = plan.weights.iter().filter(|weight| weight.effort);
        let of_kind = marked.filter(|weight| ActivationKind::of(weight.dtype) == kind);
        of_kind.map(|weight| weight.row_len).max().unwrap_or(0)
    })
}
