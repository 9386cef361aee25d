//! The live inputs of the rows of a pass whose effort is below 1.

use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
};

use pelton_graph::{Effort, EffortCurve, EffortForm, Error, Plan, Rows};

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
pub(crate) struct Efforts<'a> {
    pub(crate) batch: &'a Batch<'a>,
    pub(crate) rows: Rows,
}

/// A matrix whose rows can be below 1, in one of its orders.
#[derive(Clone, Copy)]
pub(crate) enum Order<'a> {
    /// Input by input, and the thresholds of live ones.
    Lines(&'a InputMajor, &'a EffortCurve),
    /// Sorted buckets.
    Buckets(&'a Buckets),
}

impl Order<'_> {
    fn cols(&self) -> usize {
        match self {
            Self::Lines(lines, _) => lines.cols(),
            Self::Buckets(buckets) => buckets.cols(),
        }
    }
}

/// The most matrices that one region multiplies.
pub(crate) const PRODUCTS: usize = 8;

/// The live inputs of the rows of a step.
pub(crate) struct LiveInputs {
    /// `[PRODUCTS, STRIP]` rows of live inputs, of a plan with lines.
    lists: Option<LiveRows>,
    /// As many rows of selected ranks, of a plan with sorted buckets.
    selections: Option<Selections>,
    /// Whether no matrix is whole, so that no row is multiplied densely.
    is_partial: bool,
    /// The full rows, and the others.
    dense: Vec<u32>,
    live: Vec<u32>,
    /// The efforts of the others.
    efforts: Vec<Effort>,
    /// Weights that the others multiplied since the load, and all weights of their matrices,
    /// in halves of a weight.
    multiplied: [AtomicU64; 2],
}

impl LiveInputs {
    /// Allocates for steps over up to `rows` rows.
    ///
    /// # Errors
    /// [`Error::Memory`] if the system refuses the memory.
    pub(crate) fn new(plan: &Plan, rows: usize, threads: usize) -> Result<Self, Error> {
        let selections = widest(plan, EffortForm::Bucket)
            .map(|cols| Selections::new(PRODUCTS * STRIP, cols, threads));
        let lists = widest(plan, EffortForm::Nested).map(|cols| {
            let needed = Self::bytes(plan, threads);
            let refused = Error::Memory { what: "live inputs", needed, available: None };
            LiveRows::new(PRODUCTS * STRIP, cols).ok_or(refused)
        });
        let rows = if plan.has_effort() { rows } else { 0 };
        Ok(Self {
            lists: lists.transpose()?,
            selections,
            is_partial: plan.is_partial(),
            dense: Vec::with_capacity(rows),
            live: Vec::with_capacity(rows),
            efforts: Vec::with_capacity(rows),
            multiplied: [const { AtomicU64::new(0) }; 2],
        })
    }

    /// Bytes that [`new`](Self::new) allocates, but for the lists of rows.
    pub(crate) fn bytes(plan: &Plan, threads: usize) -> u128 {
        let selections = widest(plan, EffortForm::Bucket)
            .map_or(0, |cols| Selections::bytes(PRODUCTS * STRIP, cols, threads));
        let lists = widest(plan, EffortForm::Nested)
            .map_or(0, |cols| LiveRows::bytes(PRODUCTS * STRIP, cols));
        lists + selections
    }

    /// Weights that rows below 1 multiplied since the load, and all weights of their
    /// matrices.
    pub(crate) fn multiplied(&self) -> [f64; 2] {
        self.multiplied.each_ref().map(|halves| halves.load(Ordering::Relaxed) as f64 / 2.0)
    }

    /// Counts halves of weights.
    fn count(&self, multiplied: u64, of: usize) {
        let [sum, all] = &self.multiplied;
        sum.fetch_add(multiplied, Ordering::Relaxed);
        all.fetch_add(of as u64, Ordering::Relaxed);
    }

    /// Sorts the rows of a step by whether they have effort 1. To save memory, few full rows are
    /// among the others, with all inputs live, which has the same results.
    pub(crate) fn begin(
        &mut self,
        has_marked: bool,
        saves_memory: bool,
        rows: usize,
        efforts: Efforts<'_>,
    ) {
        self.dense.clear();
        self.live.clear();
        self.efforts.clear();
        if !has_marked {
            return;
        }
        let is_dense = !self.is_partial && (!saves_memory || rows > STRIP);
        for row in 0..rows {
            let effort = efforts.batch.level(efforts.rows, row);
            match effort.is_full() && is_dense {
                true => self.dense.push(row as u32),
                false => {
                    self.live.push(row as u32);
                    self.efforts.push(effort);
                }
            }
        }
    }

    /// Ranges of the rows below 1 that are chosen together: one that is empty if there
    /// are none.
    pub(crate) fn strips(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let rows = self.live.len();
        (0..rows).step_by(STRIP).map(move |first| first..rows.min(first + STRIP))
    }

    /// Whether all rows are of effort 1.
    pub(crate) fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// The full rows, which are multiplied with the first strip, and the others of a strip.
    pub(crate) fn rows(&self, strip: Range<usize>) -> (&[u32], &[u32]) {
        let dense: &[u32] = if strip.start == 0 { &self.dense } else { &[] };
        (dense, &self.live[strip])
    }

    /// The live inputs of product `product`, and the first row of them.
    pub(crate) fn lists(&self, product: usize) -> Option<(&LiveRows, usize)> {
        Some((self.lists.as_ref()?, product * STRIP))
    }

    /// The selected ranks of product `product`, and the first row of them.
    pub(crate) fn selections(&self, product: usize) -> Option<(&Selections, usize)> {
        Some((self.selections.as_ref()?, product * STRIP))
    }

    /// Chooses the live inputs of a strip of rows of `x` `[rows, cols]` for the product with each
    /// matrix in input-major order, this thread's partition of them. `None` is a matrix in another
    /// order.
    ///
    /// # Safety
    /// All threads call it for the same rows, no thread multiplies them at the same time, and the
    /// activations have been prepared.
    pub(crate) unsafe fn choose<'a>(
        &self,
        isa: Isa,
        worker: Worker<'_>,
        strip: Range<usize>,
        x: &[f32],
        matrices: &[Option<Order<'_>>],
        of_kind: &impl Fn(ActivationKind) -> Option<&'a Activations>,
    ) {
        let count = strip.len();
        let Some(cols) = matrices.iter().flatten().map(Order::cols).next() else {
            return;
        };
        // a row and a product can be of several threads, each of which compacts some chunks
        let chunks = LiveRows::units(cols);
        let units = worker.split(matrices.len() * count * chunks, 1);
        for task in units.start / chunks..units.end.div_ceil(chunks) {
            let (product, row) = (task / count, task % count);
            let Some(order) = matrices[product] else { continue };
            let at = strip.start + row;
            let from = self.live[at] as usize;
            let effort = self.efforts[at];
            let (matrix, curve) = match (order, &self.selections) {
                (Order::Lines(matrix, curve), _) => (matrix, curve),
                (Order::Buckets(buckets), Some(selections)) => {
                    // the thread of the first chunk selects all
                    if units.start <= task * chunks {
                        let (thread, x) = (worker.index(), &x[from * cols..(from + 1) * cols]);
                        let (to, all) = (product * STRIP + row, 2 * cols * buckets.rows());
                        // SAFETY: one thread selects a row for a product.
                        let fraction = unsafe {
                            selections.select(thread, to, buckets, x, effort);
                            selections.fraction(to, buckets)
                        };
                        self.count((fraction * all as f64) as u64, all);
                    }
                    continue;
                }
                (Order::Buckets(_), None) => continue,
            };
            let Some((lists, activations)) = self.lists.as_ref().zip(of_kind(ActivationKind::I8))
            else {
                continue;
            };
            let activations = (activations, from);
            let x = &x[from * cols..(from + 1) * cols];
            let chosen = Chosen { x, matrix, least: curve.least(effort), activations };
            let first = task * chunks;
            let part = units.start.max(first) - first..units.end.min(first + chunks) - first;
            let inputs = (part.len() * LiveRows::CHUNK).min(cols - part.start * LiveRows::CHUNK);
            // SAFETY: one thread compacts a chunk of a row for a product.
            let found = unsafe { lists.choose(isa, product * STRIP + row, &chosen, part) };
            if !effort.is_full() {
                self.count(found * matrix.rows() as u64, 2 * inputs * matrix.rows());
            }
        }
    }
}

/// The most inputs of a matrix of a form; `None` without any.
pub(crate) fn widest(plan: &Plan, form: EffortForm) -> Option<usize> {
    let of_form = plan.weights.iter().filter(|weight| weight.form() == Some(form));
    of_form.map(|weight| weight.row_len).max()
}
