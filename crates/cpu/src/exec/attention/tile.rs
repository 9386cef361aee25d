//! Attention over the paged cache, for one tile of queries.
//!
//! A tile is the queries that read one KV head: the query heads of its group, in one row or a few
//! neighbouring rows of one sequence. Its positions are split into KV chunks, whose bounds are the
//! same for every row. Each chunk gives a *partial* result of a query: the greatest score, the sum
//! of the weights and the sum of the weighted values. Partials are merged in the order of the
//! chunks, as in the online softmax (Milakov and Gimelshein, arXiv 1805.02867). So the result of a
//! query depends on its own row only, whichever thread and tile computes its partials.

use std::ops::Range;

use pelton_graph::{Attention, Error, PAGE, Values, alibi_slope};

use super::blocks::{CHUNK, Products, QUERIES, Sums, blocks, partial_len, width};
use super::{prefetch::Prefetch, unpack};
use crate::batch::BatchRow;
use crate::memory::{AlignedBuf, KvCache, Stored};
use crate::pool::SharedMut;
use crate::simd::{Body, LANES, Simd, tanh};

/// The most queries of a tile (more only where the group of a single row has more). They share the
/// unpacking of a page, and their weights fit into a second-level cache.
const TILE: usize = 96;

/// The most neighbouring rows of a tile.
pub(super) fn rows_per_tile(group: usize) -> usize {
    (TILE / group).max(1)
}

/// The memory of a thread for one tile.
#[derive(Debug)]
pub(super) struct Scratch {
    /// The queries, in blocks of up to [`QUERIES`]: `[key_dim, queries]` each.
    queries: AlignedBuf,
    /// The keys of a page, unpacked.
    keys: AlignedBuf,
    /// The values of a page, unpacked.
    values: AlignedBuf,
    /// Scores, then weights `[queries, CHUNK]`.
    weights: AlignedBuf,
    /// The partials of one chunk `[queries, partial_len]`.
    partials: AlignedBuf,
    /// The merged partials of all chunks so far, in the same shape.
    merged: AlignedBuf,
}

impl Scratch {
    /// Allocates for tiles of `group` queries a row.
    ///
    /// # Errors
    /// [`Error::Memory`] if the system refuses the memory.
    pub(super) fn new(group: usize, key_dim: usize, value_dim: usize) -> Result<Self, Error> {
        let [queries, keys, values, weights, partials, merged] =
            Self::shapes(group, key_dim, value_dim)
                .map(|(rows, width)| AlignedBuf::zeroed("a tile of attention", rows, width));
        let (queries, weights) = (queries?, weights?);
        let (partials, merged) = (partials?, merged?);
        Ok(Self { queries, keys: keys?, values: values?, weights, partials, merged })
    }

    /// Bytes that [`new`](Self::new) allocates.
    pub(super) fn bytes(group: usize, key_dim: usize, value_dim: usize) -> u128 {
        let shapes = Self::shapes(group, key_dim, value_dim);
        shapes.into_iter().map(|(rows, width)| AlignedBuf::bytes(rows, width)).sum()
    }

    fn shapes(group: usize, key_dim: usize, value_dim: usize) -> [(usize, usize); 6] {
        let queries = TILE.max(group);
        let partials = (queries, partial_len(value_dim));
        let [keys, values] = [(PAGE, key_dim), (PAGE, width(value_dim))];
        [(queries, key_dim), keys, values, (queries, CHUNK), partials, partials]
    }
}

/// The queries of some rows that read one KV head.
#[derive(Clone, Copy)]
pub(super) struct Tile<'a> {
    pub(super) attention: &'a Attention,
    /// The sinks of the heads `[heads]`.
    pub(super) sinks: Option<&'a [f32]>,
    pub(super) cache: &'a KvCache,
    pub(super) table: &'a [u32],
    pub(super) kv_head: usize,
    pub(super) rows: &'a [BatchRow],
    /// Positions of the sequence.
    pub(super) len: usize,
    /// The queries of the rows `[rows, heads, key_dim]`.
    pub(super) q: &'a [f32],
}

impl<'a> Tile<'a> {
    fn key_dim(&self) -> usize {
        self.cache.shape().key_dim
    }

    fn value_dim(&self) -> usize {
        self.cache.shape().value_dim()
    }

    fn group(&self) -> usize {
        self.attention.heads / self.cache.shape().heads
    }

    fn queries(&self) -> usize {
        self.rows.len() * self.group()
    }

    /// The row and the head of query `i`.
    fn row_and_head(&self, i: usize) -> (usize, usize) {
        (i / self.group(), self.kv_head * self.group() + i % self.group())
    }

    fn query(&self, i: usize) -> &'a [f32] {
        let (row, head) = self.row_and_head(i);
        &self.q[(row * self.attention.heads + head) * self.key_dim()..][..self.key_dim()]
    }

    fn position(&self, i: usize) -> usize {
        self.rows[i / self.group()].position as usize
    }

    fn sink(&self, i: usize) -> Option<f32> {
        self.sinks.map(|sinks| sinks[self.row_and_head(i).1])
    }

    /// The stored form of a page of values.
    fn stored_values(&self, page: u32) -> Stored<'a> {
        match self.cache.shape().values {
            Values::Own { dim: _ } => self.cache.values(page, self.kv_head),
            Values::KeyPrefix { dim: _ } => self.cache.keys(page, self.kv_head),
        }
    }

    /// The positions that query `i` attends to.
    fn seen(&self, i: usize) -> Range<usize> {
        let BatchRow { position, place, .. } = self.rows[i / self.group()];
        self.attention.mask.range(position as usize, self.len, place.group)
    }

    /// The positions that any of the queries attends to. Rows are in the order of positions.
    pub(super) fn all_seen(&self) -> Range<usize> {
        self.seen(0).start..self.seen(self.queries() - 1).end
    }

    /// The first keys that a chunk reads; those of the last page if the chunk is past the last.
    pub(super) fn first_keys(&self, chunk: usize) -> Stored<'a> {
        let Range { start, end } = self.all_seen();
        let position = start.max(chunk * CHUNK).min(end - 1);
        self.cache.keys(self.table[position / PAGE], self.kv_head)
    }

    /// Applies the soft cap and ALiBi to the scores of query `i` with the positions from `first`
    /// on.
    #[inline(always)]
    fn adjust<S: Simd>(&self, simd: S, i: usize, first: usize, scores: &mut [f32]) {
        let &Attention { softcap, alibi, heads, .. } = self.attention;
        if let Some(cap) = softcap {
            for lanes in scores.as_chunks_mut::<LANES>().0 {
                let score = simd.div(simd.load(lanes), simd.splat(cap));
                simd.store(simd.mul(tanh(simd, score), simd.splat(cap)), lanes);
            }
        }
        if let Some(bias) = alibi {
            let slope = -alibi_slope(bias, self.row_and_head(i).1, heads);
            let position = self.position(i);
            for (p, score) in (first..).zip(scores) {
                *score += slope * p.abs_diff(position) as f32;
            }
        }
    }

    /// Writes the queries to the scratch as [`Products::scores`] reads them.
    fn load_queries(&self, scratch: &mut Scratch) {
        let key_dim = self.key_dim();
        for block in blocks(self.queries()) {
            let to = &mut scratch.queries[block.start * key_dim..block.end * key_dim];
            for (i, query) in block.clone().map(|i| self.query(i)).enumerate() {
                for (to, &element) in to[i..].iter_mut().step_by(block.len()).zip(query) {
                    *to = element;
                }
            }
        }
    }

    /// Computes the partials of a chunk in the scratch, which has the queries. `next` is
    /// prefetched at its end.
    #[inline(always)]
    fn chunk<S: Simd>(&self, simd: S, chunk: usize, next: Stored<'_>, scratch: &mut Scratch) {
        let (key_dim, value_dim, queries) = (self.key_dim(), self.value_dim(), self.queries());
        let (width, partial_len) = (width(value_dim), partial_len(value_dim));
        let begin = chunk * CHUNK;
        let positions = within(self.all_seen(), begin);
        let pages = positions.start / PAGE..positions.end.div_ceil(PAGE);
        let page = |p: usize| self.table[begin / PAGE + p];

        for p in pages.clone() {
            let keys = &mut scratch.keys[..key_dim * PAGE];
            let mut prefetch = Prefetch::new(match p + 1 < pages.end {
                true => self.cache.keys(page(p + 1), self.kv_head),
                false => self.stored_values(page(pages.start)),
            });
            let stored = self.cache.keys(page(p), self.kv_head);
            let products = Products {
                queries,
                x: &scratch.queries[..queries * key_dim],
                to: &mut scratch.weights[p * PAGE..],
            };
            match stored {
                Stored::F16(keys) if queries <= QUERIES => {
                    products.scores(simd, self.attention.scale, keys, &mut prefetch);
                }
                _ => {
                    unpack::keys(simd, stored, keys, &mut prefetch);
                    products.scores(simd, self.attention.scale, keys, &mut Prefetch::none());
                }
            }
        }
        let columns = pages.start * PAGE..pages.end * PAGE;
        for i in 0..queries {
            let seen = within(self.seen(i), begin);
            let seen = seen.start - columns.start..seen.end - columns.start;
            let row = &mut scratch.weights[i * CHUNK..][columns.clone()];
            self.adjust(simd, i, begin + columns.start, row);
            let (total, greatest) = soften(simd, row, seen);
            let partial = &mut scratch.partials[i * partial_len..][..partial_len];
            partial.fill(0.0);
            [partial[width], partial[width + 1]] = [total, greatest];
        }
        for p in pages.clone() {
            let seen = within(positions.clone(), p * PAGE);
            let seen = seen.start.min(PAGE)..seen.end.min(PAGE);
            let values = &mut scratch.values[..seen.len() * width];
            let stored = self.stored_values(page(p));
            let mut prefetch = Prefetch::new(match p + 1 < pages.end {
                true => self.stored_values(page(p + 1)),
                false => next,
            });
            let sums = Sums {
                queries,
                weights: &scratch.weights[p * PAGE + seen.start..],
                partials: &mut scratch.partials,
            };
            let places = seen.clone();
            match (self.cache.shape().values, stored) {
                (Values::Own { dim }, Stored::F16(all)) if queries <= QUERIES && dim == width => {
                    let all = &all[places.start * dim..places.end * dim];
                    sums.add(simd, all, width, &mut prefetch);
                    continue;
                }
                (Values::Own { dim }, _) => {
                    unpack::values(simd, stored, dim, places, values, width, &mut prefetch);
                }
                (Values::KeyPrefix { dim }, _) => {
                    let keys = &mut scratch.keys[..key_dim * PAGE];
                    unpack::keys(simd, stored, keys, &mut prefetch);
                    unpack::prefixes(keys, dim, places, values, width);
                }
            }
            sums.add(simd, values, width, &mut Prefetch::none());
        }
    }
}

/// The chunks of positions.
pub(super) fn chunks(positions: Range<usize>) -> Range<usize> {
    positions.start / CHUNK..positions.end.div_ceil(CHUNK)
}

/// The positions that lie in the chunk from `begin` on, relative to `begin`.
fn within(positions: Range<usize>, begin: usize) -> Range<usize> {
    let end = positions.end.clamp(begin, begin + CHUNK) - begin;
    (positions.start.max(begin) - begin).min(end)..end
}

/// Vectors of a page that [`soften`] processes at a time.
const AT_ONCE: usize = 4;
const _: () = assert!(PAGE.is_multiple_of(AT_ONCE * LANES));

/// Turns scores into weights, which are 0 outside of `seen`; returns their sum and the greatest
/// score.
#[inline(always)]
fn soften<S: Simd>(simd: S, row: &mut [f32], seen: Range<usize>) -> (f32, f32) {
    if seen.is_empty() {
        row.fill(0.0);
        return (0.0, f32::NEG_INFINITY);
    }
    row[..seen.start].fill(f32::NEG_INFINITY);
    row[seen.end..].fill(f32::NEG_INFINITY);
    // several chains, as each instruction depends on the one before
    let mut greatest = [simd.splat(f32::NEG_INFINITY); AT_ONCE];
    for lanes in row.as_chunks::<{ AT_ONCE * LANES }>().0 {
        for (greatest, lanes) in greatest.iter_mut().zip(lanes.as_chunks::<LANES>().0) {
            *greatest = simd.max(*greatest, simd.load(lanes));
        }
    }
    let [a, b, c, d] = greatest;
    let greatest = simd.greatest(simd.max(simd.max(a, b), simd.max(c, d)));
    let offset = simd.splat(-greatest);
    let mut totals = [simd.splat(0.0); AT_ONCE];
    for lanes in row.as_chunks_mut::<{ AT_ONCE * LANES }>().0 {
        for (total, lanes) in totals.iter_mut().zip(lanes.as_chunks_mut::<LANES>().0) {
            // the exponential of -infinity is 0
            let weight = simd.exp(simd.add(simd.load(lanes), offset));
            simd.store(weight, lanes);
            *total = simd.add(*total, weight);
        }
    }
    let [a, b, c, d] = totals;
    (simd.sum(simd.add(simd.add(a, b), simd.add(c, d))), greatest)
}

/// Merges a partial into another.
#[inline(always)]
fn merge<S: Simd>(simd: S, to: &mut [f32], from: &[f32]) {
    let greatest = to.len() - LANES + 1;
    let (a, b) = (to[greatest], from[greatest]);
    let most = a.max(b);
    let (keep, add) = (simd.exp(simd.splat(a - most)), simd.exp(simd.splat(b - most)));
    let (lanes, _) = to.as_chunks_mut::<LANES>();
    for (to, from) in lanes.iter_mut().zip(from.as_chunks::<LANES>().0) {
        simd.store(simd.mul_add(simd.load(to), keep, simd.mul(simd.load(from), add)), to);
    }
    to[greatest] = most;
}

/// Divides the merged partial of all positions by its sum of weights, to which a sink adds its own.
#[inline(always)]
fn finish(partial: &[f32], sink: Option<f32>, out: &mut [f32]) {
    let [mut total, greatest] = [0, 1].map(|i| partial[partial.len() - LANES + i]);
    let mut factor = 1.0;
    if let Some(sink) = sink {
        let most = greatest.max(sink);
        factor = (greatest - most).exp();
        total = total * factor + (sink - most).exp();
    }
    for (out, sum) in out.iter_mut().zip(partial) {
        *out = sum * factor / total;
    }
}

/// A task: all chunks of a tile.
pub(super) struct AllChunks<'a> {
    pub(super) tile: Tile<'a>,
    /// The results of all rows `[rows, heads, value_dim]`, of which those of the tile are written.
    pub(super) out: SharedMut<'a, f32>,
    /// The index in `out` of the tile's first row.
    pub(super) first: usize,
    pub(super) scratch: &'a mut Scratch,
}

impl Body for AllChunks<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { tile, out, first, scratch } = self;
        let (value_dim, partial_len) = (tile.value_dim(), partial_len(tile.value_dim()));
        let place = |i: usize| i * partial_len..(i + 1) * partial_len;
        tile.load_queries(scratch);
        for chunk in chunks(tile.all_seen()) {
            let next = tile.first_keys(chunk + 1);
            tile.chunk(simd, chunk, next, scratch);
            for i in 0..tile.queries() {
                let (partial, merged) =
                    (&scratch.partials[place(i)], &mut scratch.merged[place(i)]);
                let own = chunks(tile.seen(i));
                if chunk == own.start {
                    merged.copy_from_slice(partial);
                } else if own.contains(&chunk) {
                    merge(simd, merged, partial);
                }
            }
        }
        for i in 0..tile.queries() {
            let (row, head) = tile.row_and_head(i);
            let from = first + (row * tile.attention.heads + head) * value_dim;
            // SAFETY: one task computes a query, as it has one tile and one KV head.
            let out = unsafe { out.slice_mut(from..from + value_dim) };
            finish(&scratch.merged[place(i)], tile.sink(i), out);
        }
    }
}

/// A task: one chunk of a tile. Its partials are kept for [`Merge`].
pub(super) struct OneChunk<'a> {
    pub(super) tile: Tile<'a>,
    pub(super) chunk: usize,
    /// The first keys of the thread's next task, to be prefetched.
    pub(super) next: Stored<'a>,
    /// The partials of all tasks, of which those of the tile and chunk are written.
    pub(super) partials: SharedMut<'a, f32>,
    /// The index in `partials` of the tile's first row in this chunk: `[rows, heads, partial_len]`.
    pub(super) first: usize,
    pub(super) scratch: &'a mut Scratch,
}

impl Body for OneChunk<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { tile, chunk, next, partials, first, scratch } = self;
        let partial_len = partial_len(tile.value_dim());
        tile.load_queries(scratch);
        tile.chunk(simd, chunk, next, scratch);
        for i in 0..tile.queries() {
            let (row, head) = tile.row_and_head(i);
            let from = first + (row * tile.attention.heads + head) * partial_len;
            // SAFETY: one task computes a partial, as it has one tile, KV head and chunk.
            let partial = unsafe { partials.slice_mut(from..from + partial_len) };
            partial.copy_from_slice(&scratch.partials[i * partial_len..][..partial_len]);
        }
    }
}

/// A task: the result of one query from its partials.
pub(super) struct Merge<'a, P> {
    /// The partials in the order of chunks, at least one.
    pub(super) partials: P,
    /// The sink of the query's head.
    pub(super) sink: Option<f32>,
    pub(super) out: &'a mut [f32],
    pub(super) scratch: &'a mut Scratch,
}

impl<'a, P: Iterator<Item = &'a [f32]>> Body for Merge<'_, P> {
    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let merged = &mut self.scratch.merged[..partial_len(self.out.len())];
        if let Some(partial) = self.partials.next() {
            merged.copy_from_slice(partial);
        }
        for partial in self.partials {
            merge(simd, merged, partial);
        }
        finish(merged, self.sink, self.out);
    }
}
