//! Attention's tasks, and their share among the threads.
//!
//! With many rows a task is a tile of queries. With few there may be fewer tiles than threads, and
//! each may have far to go: then a task is one chunk of a tile's positions. Either way a thread
//! takes the next task when it has done one, and what a query gets is the same.

use std::{
    ops::Range,
    sync::atomic::{AtomicUsize, Ordering},
};

use pelton_graph::{Attention, Batch, Error, Limits, Op, PAGE, Plan, Row};

use super::attend::{
    CHUNK, Join, OneChunk, Scratch, Tile, Whole, chunks, part_len, rows_per_tile, seen,
};
use crate::{
    cache::KvCache,
    kernels::Isa,
    lines::Lines,
    pool::{Pool, SharedMut},
    simd::dispatch,
};

/// Rows of a batch whose positions are split, at most.
const FEW: usize = 16;

/// Neighbouring rows of one sequence, no more than a tile has.
struct Run {
    rows: Range<usize>,
    /// Chunks up to the last row's position.
    chunks: usize,
}

/// The tiles of a batch, and the memory that they are computed in.
pub(super) struct Attender {
    runs: Vec<Run>,
    rows_per_tile: usize,
    /// The parts of few rows: `[heads][part_len]` for each row in each of its run's chunks.
    parts: Lines,
    /// One for each thread.
    scratch: Vec<Scratch>,
}

impl Attender {
    pub(super) fn new(plan: &Plan, limits: &Limits, threads: usize) -> Result<Self, Error> {
        let (mut group, mut head_dim, mut row) = (1, 1, 1);
        for step in &plan.steps {
            if let Op::Attend(attention) = &step.op {
                let cache = plan.caches[attention.cache];
                group = group.max(attention.heads / cache.heads);
                head_dim = head_dim.max(cache.head_dim);
                row = row.max(attention.heads * part_len(cache.head_dim));
            }
        }
        // memory that is not used is not handed out by the system
        let chunks = limits.pages.div_ceil(CHUNK / PAGE).saturating_add(1);
        Ok(Self {
            runs: Vec::with_capacity(limits.rows),
            rows_per_tile: rows_per_tile(group),
            parts: Lines::zeroed(limits.rows.min(FEW).saturating_mul(chunks), row)?,
            scratch: (0..threads)
                .map(|_| Scratch::new(group, head_dim))
                .collect::<Result<_, _>>()?,
        })
    }

    /// Cuts the batch into tiles.
    pub(super) fn begin(&mut self, batch: &Batch<'_>) {
        self.runs.clear();
        let mut first = 0;
        for i in 1..=batch.rows.len() {
            let goes_on = i < batch.rows.len()
                && i - first < self.rows_per_tile
                && follows(&batch.rows[i - 1], &batch.rows[i]);
            if !goes_on {
                let chunks = batch.rows[i - 1].position as usize / CHUNK + 1;
                self.runs.push(Run { rows: first..i, chunks });
                first = i;
            }
        }
    }

    /// Attends for all rows: from `q` to `out`, both `heads × head_dim` numbers a row.
    #[allow(clippy::too_many_arguments, reason = "each is a thing of its own, and used once")]
    pub(super) fn run(
        &mut self,
        pool: &Pool,
        isa: Isa,
        attention: &Attention,
        cache: &KvCache,
        batch: &Batch<'_>,
        q: &[f32],
        out: &mut [f32],
    ) {
        let kv_heads = cache.shape().heads;
        let width = attention.heads * cache.shape().head_dim;
        let part_len = part_len(cache.shape().head_dim);
        let row_parts = attention.heads * part_len;
        let part_rows = |run: &Run| run.rows.len() * run.chunks;
        let split = batch.rows.len() <= FEW
            && self.runs.iter().any(|run| run.chunks > 1)
            && self.runs.iter().map(part_rows).sum::<usize>() * row_parts <= self.parts.len();

        let runs = &self.runs;
        let tile = |run: &Run, kv_head| {
            let rows = &batch.rows[run.rows.clone()];
            let table = &batch.tables[rows[0].sequence as usize];
            let q = &q[run.rows.start * width..run.rows.end * width];
            Tile { attention, cache, table, kv_head, rows, q }
        };
        let (out, parts) = (SharedMut::new(out), SharedMut::new(&mut self.parts));
        let scratch = SharedMut::new(&mut self.scratch);
        let next = AtomicUsize::new(0);
        pool.run(|worker| {
            let me = worker.index();
            // SAFETY: each thread has its own.
            let [scratch] = (unsafe { scratch.slice_mut(me..me + 1) }) else { return };
            if !split {
                let all = runs.len() * kv_heads;
                loop {
                    let task = next.fetch_add(1, Ordering::Relaxed);
                    if task >= all {
                        return;
                    }
                    // later runs see more positions: the longest tasks first
                    let task = all - 1 - task;
                    let run = &runs[task / kv_heads];
                    let tile = tile(run, task % kv_heads);
                    dispatch(isa, Whole { tile, out, first: run.rows.start * width, scratch });
                }
            }
            // a task's run, chunk and place of parts
            let find = |task: usize| {
                let (mut chunk, mut first) = (task / kv_heads, 0);
                for run in runs {
                    if chunk < run.chunks {
                        let first = (first + chunk * run.rows.len()) * row_parts;
                        return Some((tile(run, task % kv_heads), chunk, first));
                    }
                    chunk -= run.chunks;
                    first += part_rows(run);
                }
                None
            };
            // each task is taken before its predecessor is run, which fetches its first keys
            let mut tasks = std::iter::from_fn(|| find(next.fetch_add(1, Ordering::Relaxed)));
            let mut task = tasks.next();
            while let Some((tile, chunk, first)) = task {
                task = tasks.next();
                let (after, chunk_after) = task.as_ref().map_or((&tile, chunk), |t| (&t.0, t.1));
                let next = after.first_keys(chunk_after);
                if chunks(tile.all_seen()).contains(&chunk) {
                    dispatch(isa, OneChunk { tile, chunk, next, parts, first, scratch });
                }
            }
            worker.barrier();
            let mut first = 0;
            for run in runs {
                let queries = run.rows.len() * attention.heads;
                for query in worker.split(queries, 1) {
                    let (row, head) = (query / attention.heads, query % attention.heads);
                    let place = run.rows.start * width + query * cache.shape().head_dim;
                    // SAFETY: each query is one thread's.
                    let out = unsafe { out.slice_mut(place..place + cache.shape().head_dim) };
                    let own = chunks(seen(attention, &batch.rows[run.rows.start + row]));
                    let parts = own.map(|chunk| {
                        let row = first + chunk * run.rows.len() + row;
                        let place = row * row_parts + head * part_len;
                        // SAFETY: nobody writes parts after the barrier.
                        unsafe { parts.slice(place..place + part_len) }
                    });
                    dispatch(isa, Join { parts, out, scratch });
                }
                first += part_rows(run);
            }
        });
    }
}

/// Whether two rows are neighbours in one sequence.
fn follows(a: &Row, b: &Row) -> bool {
    a.sequence == b.sequence && a.position + 1 == b.position
}

#[cfg(test)]
mod tests {
    use pelton_graph::{KvType, build, pages_for};
    use pelton_testing::{ModelSpec, Random};

    use super::*;

    /// All instruction sets give the same bits, of many rows and of few.
    #[test]
    fn instruction_sets_agree() {
        const POSITIONS: usize = 600;
        for (head_dim, kv) in [(64, KvType::F16), (24, KvType::F32), (96, KvType::Q8_0)] {
            let spec =
                ModelSpec { heads: 14, head_dim, context: POSITIONS, ..ModelSpec::default() };
            let plan = build(&spec.checkpoint()).unwrap();
            let attention = plan.steps.iter().find_map(|step| match &step.op {
                Op::Attend(attention) => Some(*attention),
                _ => None,
            });
            let attention = attention.unwrap();
            let pages = pages_for(POSITIONS);
            let mut cache = KvCache::new(plan.caches[0], kv, pages).unwrap();
            let tables = vec![(0..pages as u32).rev().collect::<Vec<_>>()];
            let mut random = Random::new(1);
            let mut normals = |len| random.normals(len, 0.0, 1.0);
            for position in 0..POSITIONS {
                let (key, value) = (normals(2 * head_dim), normals(2 * head_dim));
                cache.store(&tables[0], position, &key, &value);
            }
            let pool = Pool::new(2).unwrap();
            for first in [POSITIONS - 40, POSITIONS - 3] {
                let rows: Vec<Row> = (first..POSITIONS)
                    .map(|p| Row { token: 0, position: p as u32, sequence: 0 })
                    .collect();
                let batch = Batch { rows: &rows, tables: &tables, selected: &[] };
                let limits = Limits { rows: rows.len(), selected: 1, sequences: 1, pages, kv };
                let q = normals(rows.len() * 14 * head_dim);
                let outs: Vec<Vec<f32>> = Isa::available()
                    .map(|isa| {
                        let mut attender = Attender::new(&plan, &limits, 2).unwrap();
                        let mut out = vec![f32::NAN; q.len()];
                        attender.begin(&batch);
                        attender.run(&pool, isa, &attention, &cache, &batch, &q, &mut out);
                        out
                    })
                    .collect();
                assert!(outs[0].iter().all(|v| v.is_finite()));
                assert!(outs.iter().all(|out| *out == outs[0]), "{kv} heads of {head_dim}");
            }
        }
    }
}
