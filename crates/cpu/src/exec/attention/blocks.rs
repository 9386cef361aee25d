//! The sums of a page: scores of queries with its keys, and weighted values.
//!
//! Keys and values in f16 that only one block of queries reads are multiplied as they are read;
//! others are unpacked first.

use std::ops::Range;

use pelton_graph::PAGE;

use super::{prefetch::Prefetch, unpack::Element};
use crate::simd::{LANES, Simd};

/// Positions of a KV chunk.
pub(super) const CHUNK: usize = 4 * PAGE;
/// The most queries whose accumulators are in registers at a time.
pub(super) const QUERIES: usize = 6;

/// Runs an expression with the constant `$count` for a number of queries up to [`QUERIES`].
macro_rules! with_count {
    ($n:expr, $count:ident => $body:expr) => {
        match $n {
            1 => with_count!(@ 1, $count => $body),
            2 => with_count!(@ 2, $count => $body),
            3 => with_count!(@ 3, $count => $body),
            4 => with_count!(@ 4, $count => $body),
            5 => with_count!(@ 5, $count => $body),
            _ => with_count!(@ QUERIES, $count => $body),
        }
    };
    (@ $n:expr, $count:ident => $body:expr) => {{
        const $count: usize = $n;
        $body
    }};
}

/// Elements of the sum of weighted values in a partial: whole vectors.
pub(super) fn width(value_dim: usize) -> usize {
    value_dim.next_multiple_of(LANES)
}

/// Elements of a partial: the sum of weighted values, then a vector whose first lanes are the sum
/// of weights and the greatest score.
pub(super) fn partial_len(value_dim: usize) -> usize {
    width(value_dim) + LANES
}

/// Splits `queries` evenly into as few blocks of at most [`QUERIES`] as possible.
pub(super) fn blocks(queries: usize) -> impl Iterator<Item = Range<usize>> {
    let blocks = queries.div_ceil(QUERIES);
    (0..blocks).map(move |block| block * queries / blocks..(block + 1) * queries / blocks)
}

/// The queries of a tile, and the scores of a page with them.
pub(super) struct Products<'a> {
    pub(super) queries: usize,
    /// The queries in [`blocks`], `[key_dim, queries]` each.
    pub(super) x: &'a [f32],
    /// The scores with the positions of the page, a query's [`CHUNK`] after those of the one
    /// before.
    pub(super) to: &'a mut [f32],
}

impl Products<'_> {
    /// Computes the scores with the keys `[key_dim, PAGE]`.
    #[inline(always)]
    pub(super) fn scores<S: Simd, E: Element>(
        self,
        simd: S,
        scale: f32,
        keys: &[E],
        prefetch: &mut Prefetch,
    ) {
        let key_dim = keys.len() / PAGE;
        for block in blocks(self.queries) {
            let to = &mut self.to[block.start * CHUNK..];
            let x = &self.x[block.start * key_dim..block.end * key_dim];
            with_count!(block.len(), Q => match S::WIDTH {
                4 => scores::<S, E, Q, 4>(simd, scale, x, keys, to, prefetch),
                _ => scores::<S, E, Q, 1>(simd, scale, x, keys, to, prefetch),
            });
        }
    }
}

/// Computes the scores of a block of queries `[key_dim, Q]` with all positions of a page
/// `[key_dim, PAGE]`: rows of `to` are [`CHUNK`] apart.
#[allow(clippy::needless_range_loop, reason = "constant bounds keep the sums in registers")]
#[inline(always)]
fn scores<S: Simd, E: Element, const Q: usize, const W: usize>(
    simd: S,
    scale: f32,
    queries: &[f32],
    keys: &[E],
    to: &mut [f32],
    prefetch: &mut Prefetch,
) {
    let (keys, queries) = (keys.as_chunks::<PAGE>().0, queries.as_chunks::<Q>().0);
    let scale = simd.splat(scale);
    for v in (0..PAGE).step_by(W * LANES) {
        let mut sums = [[simd.splat(0.0); W]; Q];
        for (keys, query) in keys.iter().zip(queries) {
            prefetch.advance(W * LANES * size_of::<E>());
            let (lanes, _) = keys[v..v + W * LANES].as_chunks::<LANES>();
            let mut keys = [simd.splat(0.0); W];
            for w in 0..W {
                keys[w] = E::load(simd, &lanes[w]);
            }
            for i in 0..Q {
                let q = simd.splat(query[i]);
                for w in 0..W {
                    sums[i][w] = simd.mul_add(q, keys[w], sums[i][w]);
                }
            }
        }
        for i in 0..Q {
            let (to, _) = to[i * CHUNK + v..][..W * LANES].as_chunks_mut::<LANES>();
            for w in 0..W {
                simd.store(simd.mul(sums[i][w], scale), &mut to[w]);
            }
        }
    }
}

/// The weights of some positions of a page, and the partials to which their values are added.
pub(super) struct Sums<'a> {
    pub(super) queries: usize,
    /// The weights, a query's [`CHUNK`] after those of the one before.
    pub(super) weights: &'a [f32],
    /// The partials `[queries, partial_len]`.
    pub(super) partials: &'a mut [f32],
}

impl Sums<'_> {
    /// Adds the weighted values `[positions, width]`.
    #[inline(always)]
    pub(super) fn add<S: Simd, E: Element>(
        self,
        simd: S,
        values: &[E],
        width: usize,
        prefetch: &mut Prefetch,
    ) {
        for block in blocks(self.queries) {
            let weights = &self.weights[block.start * CHUNK..];
            let partials = &mut self.partials[block.start * (width + LANES)..];
            with_count!(block.len(), Q => {
                gather::<S, E, Q>(simd, weights, values, width, partials, prefetch);
            });
        }
    }
}

/// Adds the weighted values of positions to the partials of `Q` queries. Rows of `weights` are
/// [`CHUNK`] apart, rows of `values` have `width` elements.
#[inline(always)]
fn gather<S: Simd, E: Element, const Q: usize>(
    simd: S,
    weights: &[f32],
    values: &[E],
    width: usize,
    partials: &mut [f32],
    prefetch: &mut Prefetch,
) {
    let mut d = 0;
    while d + S::WIDTH * LANES <= width {
        match S::WIDTH {
            4 => {
                gather_columns::<S, E, Q, 4>(simd, weights, values, partials, (d, width), prefetch)
            }
            _ => {
                gather_columns::<S, E, Q, 1>(simd, weights, values, partials, (d, width), prefetch)
            }
        }
        d += S::WIDTH * LANES;
    }
    while d < width {
        gather_columns::<S, E, Q, 1>(simd, weights, values, partials, (d, width), prefetch);
        d += LANES;
    }
}

/// [`gather`] for `W` vectors of elements from `d` on.
#[allow(clippy::needless_range_loop, reason = "constant bounds keep the sums in registers")]
#[inline(always)]
fn gather_columns<S: Simd, E: Element, const Q: usize, const W: usize>(
    simd: S,
    weights: &[f32],
    values: &[E],
    partials: &mut [f32],
    (d, width): (usize, usize),
    prefetch: &mut Prefetch,
) {
    let positions = values.len() / width;
    let weights: [&[f32]; Q] = std::array::from_fn(|i| &weights[i * CHUNK..][..positions]);
    let partial_len = width + LANES;
    let place = |i: usize| i * partial_len + d..i * partial_len + d + W * LANES;
    let mut sums = [[simd.splat(0.0); W]; Q];
    for i in 0..Q {
        let (from, _) = partials[place(i)].as_chunks::<LANES>();
        for w in 0..W {
            sums[i][w] = simd.load(&from[w]);
        }
    }
    for (p, values) in values.chunks_exact(width).enumerate() {
        prefetch.advance(W * LANES * size_of::<E>());
        let (lanes, _) = values[d..d + W * LANES].as_chunks::<LANES>();
        let mut values = [simd.splat(0.0); W];
        for w in 0..W {
            values[w] = E::load(simd, &lanes[w]);
        }
        for i in 0..Q {
            let weight = simd.splat(weights[i][p]);
            for w in 0..W {
                sums[i][w] = simd.mul_add(weight, values[w], sums[i][w]);
            }
        }
    }
    for i in 0..Q {
        let (to, _) = partials[place(i)].as_chunks_mut::<LANES>();
        for w in 0..W {
            simd.store(sums[i][w], &mut to[w]);
        }
    }
}
