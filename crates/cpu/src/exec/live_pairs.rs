//! Products of rows below 1 with experts that have sorted buckets.
//!
//! The router chooses experts from all of its weights. For each pair of a row and a chosen expert
//! the cutoff is that of the expert's own probes, and the pair is multiplied alone.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use pelton_graph::{Effort, EffortForm, Plan, WeightKind};

use super::grouped_product::{GroupedProduct, PRODUCTS};
use crate::gemm::buckets::{BUCKET_OUTPUTS, Selections};
use crate::isa::Isa;
use crate::pool::Pool;

/// Pairs whose ranks are selected before they are multiplied.
const STRIP: usize = 8;

/// A row, the expert that multiplies it, and the row of the results.
#[derive(Clone, Copy, Debug)]
pub(super) struct LivePair {
    pub(super) input: usize,
    pub(super) matrix: usize,
    pub(super) output: u32,
    pub(super) level: Effort,
}

/// The pairs of a step whose rows are below 1.
pub(super) struct LivePairs {
    /// `[STRIP, PRODUCTS]` rows of selected ranks; `None` without marked experts.
    selections: Option<Selections>,
    /// Whether no expert is whole, so that no pair is multiplied densely.
    is_partial: bool,
    pairs: Vec<LivePair>,
    /// Weights that were multiplied since the load, and all weights of their matrices.
    multiplied: [AtomicU64; 2],
}

impl LivePairs {
    /// Allocates for up to `pairs` pairs of a step.
    pub(super) fn new(plan: &Plan, pairs: usize, threads: usize) -> Self {
        let cols = widest(plan);
        Self {
            selections: cols.map(|cols| Selections::new(PRODUCTS * STRIP, cols, threads)),
            is_partial: plan.is_partial(),
            pairs: Vec::with_capacity(cols.map_or(0, |_| pairs)),
            multiplied: [const { AtomicU64::new(0) }; 2],
        }
    }

    /// Bytes that [`new`](Self::new) allocates.
    pub(super) fn bytes(plan: &Plan, pairs: usize, threads: usize) -> u128 {
        widest(plan).map_or(0, |cols| {
            let pairs = (pairs as u128).saturating_mul(size_of::<LivePair>() as u128);
            Selections::bytes(PRODUCTS * STRIP, cols, threads).saturating_add(pairs)
        })
    }

    /// Weights that rows below 1 multiplied since the load, and all weights of their
    /// matrices.
    pub(super) fn multiplied(&self) -> [f64; 2] {
        self.multiplied.each_ref().map(|count| count.load(Ordering::Relaxed) as f64)
    }

    /// Forgets the pairs of the step before.
    pub(super) fn clear(&mut self) {
        self.pairs.clear();
    }

    /// Keeps a pair if it is not to be multiplied densely; returns whether it does.
    pub(super) fn keeps(&mut self, pair: LivePair) -> bool {
        let keeps = !pair.level.is_full() || self.is_partial;
        if keeps {
            self.pairs.push(pair);
        }
        keeps
    }

    /// Multiplies the kept pairs, rows of `x` `[_, cols]`, with all products, whose matrices have
    /// sorted buckets. A thread that has computed some outputs of a pair calls `finish` with both.
    pub(super) fn run(
        &self,
        pool: &Pool,
        isa: Isa,
        x: &[f32],
        products: &[GroupedProduct<'_>],
        finish: impl Fn(&[u32], Range<usize>) + Sync,
    ) {
        let (Some(selections), Some(first)) = (&self.selections, products.first()) else { return };
        if self.pairs.is_empty() {
            return;
        }
        let (rows, cols, count) = (first.outputs(), first.inputs(), products.len());
        let tiles = rows.div_ceil(BUCKET_OUTPUTS);
        pool.run(|worker| {
            for strip in self.pairs.chunks(STRIP) {
                for task in worker.split(strip.len() * count, 1) {
                    let pair = strip[task / count];
                    let Some(buckets) = products[task % count].buckets(pair.matrix) else {
                        continue;
                    };
                    let (thread, level) = (worker.index(), pair.level);
                    let x = &x[pair.input * cols..(pair.input + 1) * cols];
                    // SAFETY: one thread selects for a pair and a product, and none
                    // multiplies before the barrier.
                    let fraction = unsafe {
                        selections.select(thread, task, buckets, x, level);
                        selections.fraction(task, buckets)
                    };
                    let all = (rows * cols) as f64;
                    let [multiplied, of] = &self.multiplied;
                    multiplied.fetch_add((fraction * all) as u64, Ordering::Relaxed);
                    of.fetch_add(all as u64, Ordering::Relaxed);
                }
                worker.barrier();
                for task in worker.split(strip.len() * tiles, 1) {
                    let (at, tile) = (task / tiles, task % tiles);
                    let pair = strip[at];
                    let to = (pair.matrix, pair.output as usize);
                    let outputs = tile * BUCKET_OUTPUTS..rows.min((tile + 1) * BUCKET_OUTPUTS);
                    for (i, product) in products.iter().enumerate() {
                        let selected = (selections, at * count + i);
                        // SAFETY: the selections are complete, and one thread computes an output.
                        unsafe { product.run_live(isa, to, selected, outputs.clone()) };
                    }
                    finish(&[pair.output], outputs);
                }
                worker.barrier();
            }
        });
    }
}

/// The most inputs of a matrix of marked experts; `None` without any.
fn widest(plan: &Plan) -> Option<usize> {
    let sorted = plan.weights.iter().filter(|weight| weight.form() == Some(EffortForm::Bucket));
    let experts = sorted.filter(|weight| matches!(weight.kind, WeightKind::Matrices { .. }));
    experts.map(|weight| weight.row_len).max()
}
