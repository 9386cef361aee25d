//! Attention's tasks, and their share among the threads.

use std::ops::Range;

use pelton_graph::{Attention, Batch, Op, Plan, Row};

use super::attend::{Lanes, Scratch, Task, rows_per_tile};
use crate::{
    cache::KvCache,
    kernels::Isa,
    pool::{Pool, SharedMut},
    simd::dispatch,
};

/// The tiles of a batch, and each thread's scratch memory.
pub(super) struct Attender {
    /// Runs of neighbouring rows of one sequence, no longer than a tile.
    tiles: Vec<Range<usize>>,
    rows_per_tile: usize,
    scratch: Vec<Scratch>,
}

impl Attender {
    pub(super) fn new(plan: &Plan, rows: usize, threads: usize) -> Self {
        let (mut group, mut head_dim) = (1, 1);
        for step in &plan.steps {
            if let Op::Attend(attention) = &step.op {
                let cache = plan.caches[attention.cache];
                group = group.max(attention.heads / cache.heads);
                head_dim = head_dim.max(cache.head_dim);
            }
        }
        Self {
            tiles: Vec::with_capacity(rows),
            rows_per_tile: rows_per_tile(group),
            scratch: (0..threads).map(|_| Scratch::new(group, head_dim)).collect(),
        }
    }

    /// Cuts the batch into tiles.
    pub(super) fn begin(&mut self, batch: &Batch<'_>) {
        self.tiles.clear();
        let mut first = 0;
        for i in 1..=batch.rows.len() {
            let goes_on = i < batch.rows.len()
                && i - first < self.rows_per_tile
                && follows(&batch.rows[i - 1], &batch.rows[i]);
            if !goes_on {
                self.tiles.push(first..i);
                first = i;
            }
        }
    }

    /// Attends for all rows: from `q` to `out`, both `heads × head_dim` numbers a row.
    #[allow(clippy::too_many_arguments, reason = "each is a thing of its own, and used once")]
    pub(super) fn run<E: Lanes>(
        &mut self,
        pool: &Pool,
        isa: Isa,
        attention: &Attention,
        cache: &KvCache<E>,
        batch: &Batch<'_>,
        q: &[f32],
        out: SharedMut<'_, f32>,
    ) {
        let kv_heads = cache.shape().heads;
        let tiles = &self.tiles;
        let scratch = SharedMut::new(&mut self.scratch);
        pool.run(|worker| {
            let me = worker.index();
            // SAFETY: each thread has its own.
            let [scratch] = (unsafe { scratch.slice_mut(me..me + 1) }) else { return };
            // later tiles see more positions, so neighbours go to different threads
            for task in (me..tiles.len() * kv_heads).step_by(worker.threads()) {
                let tile = tiles[task / kv_heads].clone();
                let rows = &batch.rows[tile.clone()];
                let task = Task {
                    attention,
                    cache,
                    table: &batch.tables[rows[0].sequence as usize],
                    kv_head: task % kv_heads,
                    rows,
                    first_row: tile.start,
                    q,
                    out,
                    scratch,
                };
                dispatch(isa, task);
            }
        });
    }
}

/// Whether two rows are neighbours in one sequence.
fn follows(a: &Row, b: &Row) -> bool {
    a.sequence == b.sequence && a.position + 1 == b.position
}
