//! The live inputs of the rows of a pass whose effort is below 1.

use std::ops::Range;

use pelton_graph::{Effort, Error, Plan, Rows};

use crate::batch::Batch;
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

/// Matrices that one region multiplies, at most.
pub(super) const PRODUCTS: usize = 8;

/// The live inputs of the rows of a step.
pub(super) struct LiveInputs {
    /// `[PRODUCTS, STRIP]` rows of live inputs; `None` for a plan without effort.
    lists: Option<LiveRows>,
    /// The rows of effort 1, and the others.
    dense: Vec<u32>,
    live: Vec<u32>,
    /// The efforts of the others.
    efforts: Vec<Effort>,
}

impl LiveInputs {
    /// Allocates for steps over up to `rows` rows.
    ///
    /// # Errors
    /// [`Error::Memory`] if the system refuses the memory.
    pub(super) fn new(plan: &Plan, rows: usize, threads: usize) -> Result<Self, Error> {
        let lists = plan.has_effort().then(|| {
            let [blocks, floats] = widest(plan);
            let lists = LiveRows::new(PRODUCTS * STRIP, blocks, floats, threads);
            let needed = Self::bytes(plan, threads);
            lists.ok_or(Error::Memory { what: "live inputs", needed, available: None })
        });
        let rows = if lists.is_some() { rows } else { 0 };
        Ok(Self {
            lists: lists.transpose()?,
            dense: Vec::with_capacity(rows),
            live: Vec::with_capacity(rows),
            efforts: Vec::with_capacity(rows),
        })
    }

    /// Bytes that [`new`](Self::new) allocates, but for the lists of rows.
    pub(super) fn bytes(plan: &Plan, threads: usize) -> u128 {
        match plan.has_effort() {
            true => {
                let [blocks, floats] = widest(plan);
                LiveRows::bytes(PRODUCTS * STRIP, blocks, floats, threads)
            }
            false => 0,
        }
    }

    /// Sorts the rows of a step by whether they have effort 1.
    pub(super) fn begin(&mut self, has_lines: bool, rows: usize, efforts: Efforts<'_>) {
        self.dense.clear();
        self.live.clear();
        self.efforts.clear();
        if !has_lines {
            return;
        }
        for row in 0..rows {
            let effort = efforts.batch.effort(efforts.rows, row);
            match effort.is_full() {
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
        (0..rows.max(1)).step_by(STRIP).map(move |first| first..rows.min(first + STRIP))
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

    /// Chooses the live inputs of a strip of rows of `x` `[rows, cols]` for the product with each
    /// matrix in input-major order, this thread's partition of them; `None` is a matrix in another
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
        matrices: &[Option<&InputMajor>],
        of_kind: &impl Fn(ActivationKind) -> Option<&'a Activations>,
    ) {
        let Some(lists) = &self.lists else { return };
        let count = strip.len();
        let Some(cols) = matrices.iter().flatten().map(|matrix| matrix.cols()).next() else {
            return;
        };
        // a row and a product can be of several threads: each selects, and compacts its chunks
        let chunks = LiveRows::units(cols);
        let units = worker.split(matrices.len() * count * chunks, 1);
        for task in units.start / chunks..units.end.div_ceil(chunks) {
            let (product, row) = (task / count, task % count);
            let Some(matrix) = matrices[product] else { continue };
            let at = strip.start + row;
            let from = self.live[at] as usize;
            let kind = ActivationKind::of(matrix.dtype());
            let activations = match kind {
                ActivationKind::I8 => of_kind(kind).map(|activations| (activations, from)),
                ActivationKind::F32 => None,
            };
            let x = &x[from * cols..(from + 1) * cols];
            let live = self.efforts[at].live(cols);
            let chosen = Chosen { x, matrix, live, activations };
            let first = task * chunks;
            let part = units.start.max(first) - first..units.end.min(first + chunks) - first;
            // SAFETY: one thread compacts a chunk of a row for a product.
            unsafe { lists.choose(isa, worker.index(), product * STRIP + row, &chosen, part) };
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
