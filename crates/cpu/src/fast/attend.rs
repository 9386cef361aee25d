//! Attention over the paged cache.
//!
//! A task is a tile of queries that share a key head: the query heads of its group, in one row or
//! a few neighbouring rows of one sequence. Each page of keys and values is read once for the
//! whole tile, in the order of positions, with the running maximum and sum of the online softmax
//! (Milakov and Gimelshein, arXiv 1805.02867). What a query gets depends on nothing but its own
//! row, whatever the tile and the thread.

use pelton_graph::{Attention, PAGE, Row};

use crate::{
    cache::{Element, KvCache},
    pool::SharedMut,
    simd::{Body, Simd},
};

/// Queries in a tile, at most (more only where a single row's group has more).
const TILE: usize = 32;
/// Lanes of a vector.
const LANES: usize = 16;
/// Queries whose products are in registers at a time.
const QUERIES: usize = 4;
/// Vectors of a value row that are in registers at a time.
const WIDTH: usize = 4;

/// The running state of the queries of one tile; one for each thread.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// `[queries][PAGE]`: scores, then weights, of one page.
    weights: Vec<f32>,
    /// `[queries][head_dim]`: the sum of weighted values so far.
    sums: Vec<f32>,
    /// The greatest score so far.
    maxima: Vec<f32>,
    /// The sum of weights so far.
    totals: Vec<f32>,
}

impl Scratch {
    /// Room for the tiles of `group` queries a row with heads of `head_dim`.
    pub(super) fn new(group: usize, head_dim: usize) -> Self {
        let queries = TILE.max(group);
        Self {
            weights: vec![0.0; queries * PAGE],
            sums: vec![0.0; queries * head_dim],
            maxima: vec![0.0; queries],
            totals: vec![0.0; queries],
        }
    }
}

/// How many neighbouring rows share a tile.
pub(super) fn rows_per_tile(group: usize) -> usize {
    (TILE / group).max(1)
}

/// One task: the queries of `rows` (indices `first_row..`) that read `kv_head`.
pub(super) struct Task<'a, E> {
    pub(super) attention: &'a Attention,
    pub(super) cache: &'a KvCache<E>,
    pub(super) table: &'a [u32],
    pub(super) kv_head: usize,
    pub(super) rows: &'a [Row],
    pub(super) first_row: usize,
    /// `[all rows][heads × head_dim]`.
    pub(super) q: &'a [f32],
    /// As `q`; the task writes its own queries' places.
    pub(super) out: SharedMut<'a, f32>,
    pub(super) scratch: &'a mut Scratch,
}

impl<E: Lanes> Task<'_, E> {
    fn group(&self) -> usize {
        self.attention.heads / self.cache.shape().heads
    }

    /// Where query `i` of the tile begins in `q` and `out`.
    fn place(&self, i: usize) -> usize {
        let (group, head_dim) = (self.group(), self.cache.shape().head_dim);
        let (row, head) = (self.first_row + i / group, self.kv_head * group + i % group);
        (row * self.attention.heads + head) * head_dim
    }

    /// The positions that query `i` sees, in the page of positions from `base` on.
    fn seen(&self, i: usize, base: usize) -> std::ops::Range<usize> {
        let position = self.rows[i / self.group()].position as usize;
        let first = self.first_seen(position);
        let end = (position + 1).clamp(base, base + PAGE) - base;
        first.clamp(base, base + PAGE).min(base + end) - base..end
    }

    fn first_seen(&self, position: usize) -> usize {
        self.attention.window.map_or(0, |window| (position + 1).saturating_sub(window))
    }

    /// Scores of `Q` queries from `first` on with all positions of a page.
    #[inline(always)]
    fn scores<S: Simd, const Q: usize>(&mut self, simd: S, first: usize, keys: &[E]) {
        const VECTORS: usize = PAGE / LANES;
        let head_dim = self.cache.shape().head_dim;
        let queries: [&[f32]; Q] =
            std::array::from_fn(|i| &self.q[self.place(first + i)..][..head_dim]);
        let mut sums = [[simd.splat(0.0); VECTORS]; Q];
        for (d, keys) in keys.as_chunks::<PAGE>().0.iter().enumerate() {
            let lanes = keys.as_chunks::<LANES>().0;
            let keys: [S::V; VECTORS] = std::array::from_fn(|v| E::load(simd, &lanes[v]));
            for i in 0..Q {
                let q = simd.splat(queries[i][d]);
                for v in 0..VECTORS {
                    sums[i][v] = simd.mul_add(q, keys[v], sums[i][v]);
                }
            }
        }
        let scale = simd.splat(self.attention.scale);
        let (rows, _) = self.scratch.weights[first * PAGE..].as_chunks_mut::<PAGE>();
        for (sums, row) in sums.iter().zip(rows) {
            for (sum, to) in sums.iter().zip(row.as_chunks_mut::<LANES>().0) {
                simd.store(simd.mul(*sum, scale), to);
            }
        }
    }

    /// From the scores of query `i` in a page to its weights; updates maximum, total and sums.
    #[inline(always)]
    fn soften<S: Simd>(&mut self, simd: S, i: usize, seen: std::ops::Range<usize>) {
        let head_dim = self.cache.shape().head_dim;
        let scratch = &mut *self.scratch;
        let row = &mut scratch.weights[i * PAGE..(i + 1) * PAGE];
        if seen.is_empty() {
            row.fill(0.0);
            return;
        }
        row[..seen.start].fill(f32::NEG_INFINITY);
        row[seen.end..].fill(f32::NEG_INFINITY);
        let (lanes, _) = row.as_chunks_mut::<LANES>();
        let mut greatest = simd.splat(scratch.maxima[i]);
        for lane in lanes.iter() {
            greatest = simd.max(greatest, simd.load(lane));
        }
        let maximum = simd.greatest(greatest);
        let offset = simd.splat(-maximum);
        for lane in lanes.iter_mut() {
            let weight = simd.exp(simd.add(simd.load(lane), offset));
            simd.store(weight, lane);
        }
        row[..seen.start].fill(0.0);
        row[seen.end..].fill(0.0);
        let mut total = simd.splat(0.0);
        for lane in row.as_chunks::<LANES>().0 {
            total = simd.add(total, simd.load(lane));
        }
        let mut shrink = [0.0; LANES];
        simd.store(simd.exp(simd.splat(scratch.maxima[i] - maximum)), &mut shrink);
        let shrink = shrink[0];
        scratch.totals[i] = scratch.totals[i] * shrink + simd.sum(total);
        scratch.maxima[i] = maximum;
        if shrink != 1.0 {
            for sum in &mut scratch.sums[i * head_dim..(i + 1) * head_dim] {
                *sum *= shrink;
            }
        }
    }

    /// Adds the weighted values of a page to the sums of `Q` queries from `first` on.
    #[inline(always)]
    fn gather<S: Simd, const Q: usize>(
        &mut self,
        simd: S,
        first: usize,
        values: &[E],
        seen: std::ops::Range<usize>,
    ) {
        let head_dim = self.cache.shape().head_dim;
        let mut d = 0;
        while d + WIDTH * LANES <= head_dim {
            self.gather_columns::<S, Q, WIDTH>(simd, first, values, seen.clone(), d);
            d += WIDTH * LANES;
        }
        while d + LANES <= head_dim {
            self.gather_columns::<S, Q, 1>(simd, first, values, seen.clone(), d);
            d += LANES;
        }
        for d in d..head_dim {
            for i in first..first + Q {
                let weights = &self.scratch.weights[i * PAGE..(i + 1) * PAGE];
                let sum = &mut self.scratch.sums[i * head_dim + d];
                for p in seen.clone() {
                    *sum += weights[p] * values[p * head_dim + d].to_f32();
                }
            }
        }
    }

    /// The part of [`gather`](Self::gather) for `W` vectors of elements from `d` on.
    #[inline(always)]
    fn gather_columns<S: Simd, const Q: usize, const W: usize>(
        &mut self,
        simd: S,
        first: usize,
        values: &[E],
        seen: std::ops::Range<usize>,
        d: usize,
    ) {
        let head_dim = self.cache.shape().head_dim;
        let scratch = &mut *self.scratch;
        let place = |i: usize| (first + i) * head_dim + d;
        let mut sums: [[S::V; W]; Q] = std::array::from_fn(|i| {
            let lanes = scratch.sums[place(i)..][..W * LANES].as_chunks::<LANES>().0;
            std::array::from_fn(|w| simd.load(&lanes[w]))
        });
        let (weights, _) = scratch.weights[first * PAGE..].as_chunks::<PAGE>();
        for p in seen {
            let lanes = values[p * head_dim + d..][..W * LANES].as_chunks::<LANES>().0;
            let row: [S::V; W] = std::array::from_fn(|w| E::load(simd, &lanes[w]));
            for i in 0..Q {
                let weight = simd.splat(weights[i][p]);
                for w in 0..W {
                    sums[i][w] = simd.mul_add(weight, row[w], sums[i][w]);
                }
            }
        }
        for (i, sums) in sums.iter().enumerate() {
            let (lanes, _) = scratch.sums[place(i)..][..W * LANES].as_chunks_mut::<LANES>();
            for (sum, to) in sums.iter().zip(lanes) {
                simd.store(*sum, to);
            }
        }
    }

    /// One page for `Q` queries from `first` on.
    #[inline(always)]
    fn page<S: Simd, const Q: usize>(&mut self, simd: S, first: usize, base: usize) {
        let cache = self.cache;
        let page = self.table[base / PAGE];
        self.scores::<S, Q>(simd, first, cache.keys(page, self.kv_head));
        let (mut start, mut end) = (PAGE, 0);
        for i in first..first + Q {
            let seen = self.seen(i, base);
            if !seen.is_empty() {
                (start, end) = (start.min(seen.start), end.max(seen.end));
            }
            self.soften(simd, i, seen);
        }
        self.gather::<S, Q>(simd, first, cache.values(page, self.kv_head), start..end);
    }
}

impl<E: Lanes> Body for Task<'_, E> {
    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let head_dim = self.cache.shape().head_dim;
        let queries = self.rows.len() * self.group();
        self.scratch.sums[..queries * head_dim].fill(0.0);
        self.scratch.maxima[..queries].fill(f32::NEG_INFINITY);
        self.scratch.totals[..queries].fill(0.0);

        let positions = || self.rows.iter().map(|row| row.position as usize);
        let first = self.first_seen(positions().min().unwrap_or(0));
        let last = positions().max().unwrap_or(0);
        for base in (first / PAGE * PAGE..=last).step_by(PAGE) {
            let mut i = 0;
            while i + QUERIES <= queries {
                self.page::<S, QUERIES>(simd, i, base);
                i += QUERIES;
            }
            for i in i..queries {
                self.page::<S, 1>(simd, i, base);
            }
        }
        for i in 0..queries {
            let from = self.place(i);
            // SAFETY: a query's place belongs to the one task that has its row and key head.
            let out = unsafe { self.out.slice_mut(from..from + head_dim) };
            let total = self.scratch.totals[i];
            for (out, sum) in out.iter_mut().zip(&self.scratch.sums[i * head_dim..]) {
                *out = sum / total;
            }
        }
    }
}

/// An element type that vectors can be loaded from.
pub(super) trait Lanes: Element {
    fn load<S: Simd>(simd: S, from: &[Self; LANES]) -> S::V;
}

impl Lanes for f32 {
    #[inline(always)]
    fn load<S: Simd>(simd: S, from: &[Self; LANES]) -> S::V {
        simd.load(from)
    }
}

impl Lanes for half::f16 {
    #[inline(always)]
    fn load<S: Simd>(simd: S, from: &[Self; LANES]) -> S::V {
        simd.load_f16(from)
    }
}
