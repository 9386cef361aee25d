//! The tasks of attention, and their distribution over the threads.
//!
//! A task is a tile of queries where rows are many. Where they are few, there may be fewer tiles
//! than threads. A task is then one KV chunk of a tile, and a second phase merges the partial
//! results. A thread that finishes a task takes the next one; the result of a query is the same in
//! both schedules.

use std::{
    ops::Range,
    sync::atomic::{AtomicUsize, Ordering},
};

use pelton_graph::{Attention, Encoder, Error, Limits, Mask, Op, Plan};

use super::blocks::{CHUNK, partial_len};
use super::tile::{AllChunks, Merge, OneChunk, Scratch, Tile, chunks, rows_per_tile};
use crate::batch::{Batch, BatchRow};
use crate::isa::Isa;
use crate::memory::{AlignedBuf, KvCache};
use crate::pool::{Pool, SharedMut};
use crate::simd::dispatch;

/// Rows up to which the positions of a batch are split into KV chunks.
const FEW: usize = 16;

/// Neighbouring rows of one sequence: the rows of a tile.
struct Run {
    rows: Range<usize>,
    /// Positions of the sequence, those of the batch included.
    len: usize,
    /// KV chunks up to the last position that a row may see.
    chunks: usize,
}

/// The tiles of a batch, and the memory that they are computed in.
pub(in crate::exec) struct Attender {
    runs: Vec<Run>,
    /// Rows whose pages of encoded windows are the same. They see the same positions, whichever
    /// their own are, so that the keys and values of a window are unpacked once for all its rows.
    window_runs: Vec<Run>,
    rows_per_tile: usize,
    /// Partial results of few rows `[runs][chunks, rows, heads, partial_len]`.
    partials: AlignedBuf,
    /// The memory of each thread.
    scratch: Vec<Scratch>,
}

/// The widest attention of a plan.
struct Widest {
    /// Query heads of a KV head.
    group: usize,
    key_dim: usize,
    value_dim: usize,
    /// Elements of the partials of one row.
    row: usize,
}

impl Widest {
    fn of(plan: &Plan) -> Self {
        let mut widest = Self { group: 1, key_dim: 1, value_dim: 1, row: 1 };
        for step in &plan.steps {
            if let &Op::Attend(Attention { cache, heads, .. }) = &step.op {
                let cache = plan.caches[cache];
                let partials = heads.saturating_mul(partial_len(cache.value_dim()));
                widest.group = widest.group.max(heads / cache.heads);
                widest.key_dim = widest.key_dim.max(cache.key_dim);
                widest.value_dim = widest.value_dim.max(cache.value_dim());
                widest.row = widest.row.max(partials);
            }
        }
        widest
    }
}

/// Rows and chunks of the partials that `limits` allow.
fn partial_rows(plan: &Plan, limits: &Limits) -> usize {
    let positions = limits.context.max(plan.encoded_positions());
    limits.rows.min(FEW).saturating_mul(positions.div_ceil(CHUNK))
}

impl Attender {
    /// Allocates for the widest attention of a plan on this many threads.
    ///
    /// # Errors
    /// [`Error::Memory`] if the system refuses the memory.
    pub(in crate::exec) fn new(
        plan: &Plan,
        limits: &Limits,
        threads: usize,
    ) -> Result<Self, Error> {
        let Widest { group, key_dim, value_dim, row } = Widest::of(plan);
        let partials =
            AlignedBuf::zeroed("partial results of attention", partial_rows(plan, limits), row)?;
        let scratch = (0..threads).map(|_| Scratch::new(group, key_dim, value_dim));
        let scratch = scratch.collect::<Result<_, _>>()?;
        let rows_per_tile = rows_per_tile(group);
        let (runs, window_runs) = (Vec::new(), Vec::new());
        Ok(Self { runs, window_runs, rows_per_tile, partials, scratch })
    }

    /// Bytes that [`new`](Self::new) allocates.
    pub(in crate::exec) fn bytes(plan: &Plan, limits: &Limits, threads: usize) -> u128 {
        let Widest { group, key_dim, value_dim, row } = Widest::of(plan);
        let scratch = Scratch::bytes(group, key_dim, value_dim).saturating_mul(threads as u128);
        AlignedBuf::bytes(partial_rows(plan, limits), row).saturating_add(scratch)
    }

    /// Groups the rows of a batch into tiles. Rows of whole sequences may see later
    /// positions of the batch.
    pub(in crate::exec) fn begin(&mut self, batch: &Batch<'_>, plan: &Plan) {
        self.window_runs.clear();
        if let Some(encoder) = plan.encoder {
            self.begin_windows(batch, &encoder);
        }
        let whole_sequences = plan.whole_sequences;
        self.runs.clear();
        let mut first = 0;
        for i in 1..=batch.rows.len() {
            let goes_on = i < batch.rows.len()
                && i - first < self.rows_per_tile
                && follows(&batch.rows[i - 1], &batch.rows[i]);
            if !goes_on {
                let last = batch.rows[i - 1];
                let same_sequence = self
                    .runs
                    .last()
                    .filter(|run| whole_sequences && batch.rows[run.rows.start].slot == last.slot);
                let len = match (same_sequence, whole_sequences) {
                    (Some(run), _) => run.len,
                    (None, true) => batch.len_of(last.slot),
                    (None, false) => last.place.group[1].max(last.position + 1) as usize,
                };
                self.runs.push(Run { rows: first..i, len, chunks: len.div_ceil(CHUNK) });
                first = i;
            }
        }
    }

    fn begin_windows(&mut self, batch: &Batch<'_>, encoder: &Encoder) {
        let table = |row: &BatchRow| batch.table(encoder.cross, row);
        let mut first = 0;
        for i in 1..=batch.rows.len() {
            let goes_on = i < batch.rows.len()
                && i - first < self.rows_per_tile
                && table(&batch.rows[first]) == table(&batch.rows[i]);
            if !goes_on {
                let len = encoder.positions;
                self.window_runs.push(Run { rows: first..i, len, chunks: len.div_ceil(CHUNK) });
                first = i;
            }
        }
    }

    /// Computes the attention of all rows, from `q` `[rows, heads, key_dim]` to `out`
    /// `[rows, heads, value_dim]`. The weights of `attention` are `sinks`.
    #[allow(clippy::too_many_arguments, reason = "the arguments have no common structure")]
    pub(in crate::exec) fn run(
        &mut self,
        pool: &Pool,
        isa: Isa,
        attention: &Attention,
        sinks: Option<&[f32]>,
        cache: &KvCache,
        batch: &Batch<'_>,
        q: &[f32],
        out: &mut [f32],
    ) {
        let kv_heads = cache.shape().heads;
        let value_dim = cache.shape().value_dim();
        let q_width = attention.heads * cache.shape().key_dim;
        let width = attention.heads * value_dim;
        let partial_len = partial_len(value_dim);
        let row_partials = attention.heads * partial_len;
        let runs = match attention.mask {
            Mask::Window { positions: _ } => &self.window_runs,
            Mask::Causal { .. }
            | Mask::CausalOrGroup { .. }
            | Mask::Group
            | Mask::Chunked { .. }
            | Mask::Symmetric { .. } => &self.runs,
        };
        let partials_of = |run: &Run| run.rows.len() * run.chunks;
        let split = batch.rows.len() <= FEW
            && runs.iter().any(|run| run.chunks > 1)
            && runs.iter().map(partials_of).sum::<usize>() * row_partials <= self.partials.len();

        let tile = |run: &Run, kv_head| {
            let rows = &batch.rows[run.rows.clone()];
            let table = batch.table(cache.shape().group, &rows[0]);
            let q = &q[run.rows.start * q_width..run.rows.end * q_width];
            Tile { attention, sinks, cache, table, kv_head, rows, len: run.len, q }
        };
        let (out, partials) = (SharedMut::new(out), SharedMut::new(&mut self.partials));
        let scratch = SharedMut::new(&mut self.scratch);
        let next = AtomicUsize::new(0);
        pool.run(|worker| {
            let me = worker.index();
            // SAFETY: each thread has its own scratch memory.
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
                    dispatch(isa, AllChunks { tile, out, first: run.rows.start * width, scratch });
                }
            }
            // the tile and chunk of a task, and the index of its partials
            let find = |task: usize| {
                let (mut chunk, mut first) = (task / kv_heads, 0);
                for run in runs {
                    if chunk < run.chunks {
                        let first = (first + chunk * run.rows.len()) * row_partials;
                        return Some((tile(run, task % kv_heads), chunk, first));
                    }
                    chunk -= run.chunks;
                    first += partials_of(run);
                }
                None
            };
            // a thread takes its next task before it runs one, and prefetches the
            // first keys of the next
            let mut tasks = std::iter::from_fn(|| find(next.fetch_add(1, Ordering::Relaxed)));
            let mut task = tasks.next();
            while let Some((tile, chunk, first)) = task {
                task = tasks.next();
                let (after, chunk_after) = task.as_ref().map_or((&tile, chunk), |t| (&t.0, t.1));
                let next = after.first_keys(chunk_after);
                if chunks(tile.all_seen()).contains(&chunk) {
                    dispatch(isa, OneChunk { tile, chunk, next, partials, first, scratch });
                }
            }
            worker.barrier();
            let mut first = 0;
            for run in runs {
                let queries = run.rows.len() * attention.heads;
                for query in worker.split(queries, 1) {
                    let (row, head) = (query / attention.heads, query % attention.heads);
                    let place = run.rows.start * width + query * value_dim;
                    // SAFETY: one thread merges a query.
                    let out = unsafe { out.slice_mut(place..place + value_dim) };
                    let BatchRow { position, place, .. } = batch.rows[run.rows.start + row];
                    let mask = attention.mask;
                    let own = chunks(mask.range(position as usize, run.len, place.group));
                    let sink = sinks.map(|sinks| sinks[head]);
                    let partials = own.map(|chunk| {
                        let row = first + chunk * run.rows.len() + row;
                        let place = row * row_partials + head * partial_len;
                        // SAFETY: partials are not written after the barrier.
                        unsafe { partials.slice(place..place + partial_len) }
                    });
                    dispatch(isa, Merge { partials, sink, out, scratch });
                }
                first += partials_of(run);
            }
        });
    }
}

/// Whether two rows are neighbours in one sequence.
fn follows(a: &BatchRow, b: &BatchRow) -> bool {
    a.slot == b.slot && a.position + 1 == b.position
}

#[cfg(test)]
mod tests {
    use pelton_graph::{KvElement, KvType, PageTables, Phase, Place, TableEdit, build, pages_for};
    use pelton_testing::{ModelSpec, Random, backend::limits};

    use super::*;

    /// All instruction sets compute the same bits, in both schedules.
    #[test]
    fn instruction_sets_agree() {
        const POSITIONS: usize = 600;
        let floats = [(64, KvType::F16), (24, KvType::F32)];
        let others = KvElement::ALL.map(|kv| (96, KvType::both(kv)));
        for (head_dim, kv) in floats.into_iter().chain(others) {
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
            let table: Vec<u32> = (0..pages as u32).rev().collect();
            let mut random = Random::new(1);
            let mut normals = |len| random.normals(len, 0.0, 1.0);
            for position in 0..POSITIONS {
                let (key, value) = (normals(2 * head_dim), normals(2 * head_dim));
                cache.store(&table, position, &key, &value);
            }
            let pool = Pool::new(2).unwrap();
            for first in [POSITIONS - 40, POSITIONS - 3] {
                let rows: Vec<BatchRow> = (first..POSITIONS)
                    .map(|p| BatchRow {
                        token: 0,
                        position: p as u32,
                        slot: 0,
                        place: Place::of(p as u32),
                        embedding: None,
                    })
                    .collect();
                let limits = Limits { rows: rows.len(), kv, pages: vec![pages], ..limits(&spec) };
                let mut tables = PageTables::new(&limits);
                let edit = TableEdit { group: 0, slot: 0, first: 0, pages: &table };
                tables.apply(&edit).unwrap();
                let batch = Batch {
                    phase: Phase::Prompt,
                    rows: &rows,
                    tables: &tables,
                    selected: &[],
                    embeddings: &[],
                    efforts: &[],
                };
                let q = normals(rows.len() * 14 * head_dim);
                let outs: Vec<Vec<f32>> = Isa::available()
                    .map(|isa| {
                        let mut attender = Attender::new(&plan, &limits, 2).unwrap();
                        let mut out = vec![f32::NAN; q.len()];
                        attender.begin(&batch, &plan);
                        attender.run(&pool, isa, &attention, None, &cache, &batch, &q, &mut out);
                        out
                    })
                    .collect();
                assert!(outs[0].iter().all(|v| v.is_finite()));
                assert!(outs.iter().all(|out| *out == outs[0]), "{kv} heads of {head_dim}");
            }
        }
    }
}
