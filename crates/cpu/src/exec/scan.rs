//! Selective scans over the rows of sequences.
//!
//! Rows run in their order; the threads split columns of heads. So the result of a row is the same
//! in a prompt and alone.

use std::ops::Range;

use pelton_graph::SelectiveScan;

use super::recurrent::softplus;
use crate::batch::Batch;
use crate::isa::Isa;
use crate::pool::{Pool, SharedMut};
use crate::simd::{Body, LANES, Simd, dispatch};

/// Columns of a state that are updated at a time: their sums fit into registers.
const COLUMNS: usize = 2 * LANES;

/// [`Op::SelectiveScan`](pelton_graph::Op::SelectiveScan) of all rows.
pub(super) struct Scan<'a> {
    pub(super) scan: &'a SelectiveScan,
    pub(super) rate: &'a [f32],
    pub(super) skip: &'a [f32],
    pub(super) shift: &'a [f32],
    /// `[rows, heads · head_dim + 2 · groups · state_dim]`.
    pub(super) xbc: &'a [f32],
    pub(super) dt: &'a [f32],
    /// `[slots, heads, state_dim, head_dim]`.
    pub(super) states: SharedMut<'a, f32>,
}

impl Scan<'_> {
    pub(super) fn run(&self, pool: &Pool, isa: Isa, batch: &Batch<'_>, y: &mut [f32]) {
        let y = SharedMut::new(y);
        let &SelectiveScan { heads, head_dim, .. } = self.scan;
        let blocks = head_dim.div_ceil(COLUMNS);
        pool.run(|worker| {
            for task in worker.split(heads * blocks, 1) {
                let (head, block) = (task / blocks, task % blocks);
                let columns = block * COLUMNS..head_dim.min((block + 1) * COLUMNS);
                dispatch(isa, Columns { all: self, batch, head, columns, y });
            }
        });
    }
}

/// Some columns of the state of one head, over all rows.
struct Columns<'a> {
    all: &'a Scan<'a>,
    batch: &'a Batch<'a>,
    head: usize,
    columns: Range<usize>,
    y: SharedMut<'a, f32>,
}

impl Body for Columns<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { all, batch, head, columns, y } = self;
        let &SelectiveScan { heads, groups, head_dim, state_dim, low, high, .. } = all.scan;
        let (inner, group) = (heads * head_dim, head / (heads / groups));
        let width = inner + 2 * groups * state_dim;
        for (i, row) in batch.rows.iter().enumerate() {
            let xbc = &all.xbc[i * width..(i + 1) * width];
            let own = head * head_dim;
            let x = &xbc[own + columns.start..own + columns.end];
            let b = &xbc[inner + group * state_dim..][..state_dim];
            let c = &xbc[inner + (groups + group) * state_dim..][..state_dim];
            let place = i * inner + own;
            // SAFETY: one thread computes a column of a head.
            let y = unsafe { y.slice_mut(place + columns.start..place + columns.end) };
            let step = softplus(all.dt[i * heads + head] + all.shift[head]).max(low).min(high);
            let decay = (all.rate[head] * step).exp();
            let first = (row.slot as usize * heads + head) * state_dim;
            let state = |n: usize| {
                let first = (first + n) * head_dim;
                // SAFETY: as above; one borrow of a row of the state at a time.
                unsafe { all.states.slice_mut(first + columns.start..first + columns.end) }
            };
            if row.position == 0 {
                (0..state_dim).for_each(|n| state(n).fill(0.0));
            }
            let row = ScanRow { x, b, c, step, decay, skip: all.skip[head] };
            if columns.len() == COLUMNS {
                row.update(|n| state(n).first_chunk_mut(), y);
            } else {
                row.update_few(state, y);
            }
        }
    }
}

/// The inputs of a row for some columns.
struct ScanRow<'a> {
    x: &'a [f32],
    b: &'a [f32],
    c: &'a [f32],
    /// The length of the step.
    step: f32,
    /// The factor of the state.
    decay: f32,
    /// The factor of inputs in outputs.
    skip: f32,
}

impl ScanRow<'_> {
    /// Updates rows of the state, and writes the output.
    ///
    /// The compiler turns the loops over columns into vectors of the instruction set.
    #[inline(always)]
    fn update<'a>(&self, state: impl Fn(usize) -> Option<&'a mut [f32; COLUMNS]>, y: &mut [f32]) {
        let (mut inputs, mut sums) = ([0.0; COLUMNS], [0.0; COLUMNS]);
        for (input, x) in inputs.iter_mut().zip(self.x) {
            *input = self.step * x;
        }
        for (n, (&b, &c)) in self.b.iter().zip(self.c).enumerate() {
            let Some(state) = state(n) else { return };
            for ((s, input), sum) in state.iter_mut().zip(&inputs).zip(&mut sums) {
                *s = *s * self.decay + b * input;
                *sum += c * *s;
            }
        }
        self.write(&sums, y);
    }

    /// [`update`](Self::update) of fewer columns.
    #[inline(always)]
    fn update_few<'a>(&self, state: impl Fn(usize) -> &'a mut [f32], y: &mut [f32]) {
        let mut sums = [0.0; COLUMNS];
        for (n, (&b, &c)) in self.b.iter().zip(self.c).enumerate() {
            for ((s, x), sum) in state(n).iter_mut().zip(self.x).zip(&mut sums) {
                *s = *s * self.decay + b * (self.step * x);
                *sum += c * *s;
            }
        }
        self.write(&sums, y);
    }

    #[inline(always)]
    fn write(&self, sums: &[f32; COLUMNS], y: &mut [f32]) {
        for ((y, sum), x) in y.iter_mut().zip(sums).zip(self.x) {
            *y = sum + self.skip * x;
        }
    }
}
