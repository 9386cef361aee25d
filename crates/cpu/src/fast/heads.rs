//! What heads go through on their way to attention: norms, rotations and the store.

use pelton_graph::{Batch, Norm, Rope, RopeStyle};

use super::rows::HeadNormRow;
use crate::{
    cache::KvCache,
    kernels::Isa,
    pool::{Pool, SharedMut},
    simd::{Body, Simd, dispatch},
};

/// Rows from which on it pays to wake other threads.
const MANY: usize = 8;

/// A rotation at the positions of a batch: cosines and sines, one of each for each pair of a row.
pub(super) struct Angles {
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl Angles {
    pub(super) fn new(rope: &Rope, rows: usize) -> Self {
        let room = || Vec::with_capacity(rows * rope.frequencies.len());
        Self { cos: room(), sin: room() }
    }

    pub(super) fn begin(&mut self, rope: &Rope, batch: &Batch<'_>) {
        self.cos.clear();
        self.sin.clear();
        for row in batch.rows {
            for &frequency in &rope.frequencies {
                let (sin, cos) = (f64::from(row.position) * f64::from(frequency)).sin_cos();
                self.cos.push(cos as f32);
                self.sin.push(sin as f32);
            }
        }
    }

    /// Turns the heads of a row, the batch's `row`th.
    pub(super) fn turn(
        &self,
        isa: Isa,
        rope: &Rope,
        row: usize,
        head_dim: usize,
        heads: &mut [f32],
    ) {
        let pairs = rope.frequencies.len();
        let angles = row * pairs..(row + 1) * pairs;
        let (cos, sin) = (&self.cos[angles.clone()], &self.sin[angles]);
        dispatch(isa, TurnRow { style: rope.style, cos, sin, head_dim, heads });
    }
}

struct TurnRow<'a> {
    style: RopeStyle,
    cos: &'a [f32],
    sin: &'a [f32],
    head_dim: usize,
    heads: &'a mut [f32],
}

impl Body for TurnRow<'_> {
    /// Plain loops: compiled for an instruction set they become its vectors.
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let pairs = self.cos.len();
        for head in self.heads.chunks_exact_mut(self.head_dim) {
            let head = &mut head[..2 * pairs];
            match self.style {
                RopeStyle::Halves => {
                    let (a, b) = head.split_at_mut(pairs);
                    for (((a, b), cos), sin) in a.iter_mut().zip(b).zip(self.cos).zip(self.sin) {
                        (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
                    }
                }
                RopeStyle::Interleaved => {
                    let (head, _) = head.as_chunks_mut();
                    for (([a, b], cos), sin) in head.iter_mut().zip(self.cos).zip(self.sin) {
                        (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
                    }
                }
            }
        }
    }
}

/// Queries or keys of all rows.
pub(super) struct Heads<'a> {
    pub(super) values: &'a mut [f32],
    /// Numbers in a row.
    pub(super) width: usize,
    pub(super) norm: Option<(Norm, &'a [f32])>,
}

/// [`Op::RopeStore`](pelton_graph::Op::RopeStore): norms and turns queries and keys in place, and
/// stores keys and values.
pub(super) struct RopeStore<'a> {
    pub(super) rope: &'a Rope,
    pub(super) angles: &'a Angles,
    pub(super) queries: Heads<'a>,
    pub(super) keys: Heads<'a>,
    pub(super) values: &'a [f32],
    pub(super) cache: &'a mut KvCache,
}

impl RopeStore<'_> {
    pub(super) fn run(self, pool: &Pool, isa: Isa, batch: &Batch<'_>) {
        let Self { rope, angles, queries, keys, values, cache } = self;
        let head_dim = cache.shape().head_dim;
        let kv_heads = cache.shape().heads;
        let (rows, kv_width) = (batch.rows.len(), keys.width);
        let both = [queries, keys].map(|Heads { values, width, norm }| {
            (SharedMut::new(&mut values[..rows * width]), width, norm)
        });
        let turn = |row: usize| {
            for (values, width, norm) in &both {
                // SAFETY: a row belongs to one thread.
                let heads = unsafe { values.slice_mut(row * width..(row + 1) * width) };
                if let Some((norm, weight)) = *norm {
                    dispatch(isa, HeadNormRow { x: heads, weight, norm });
                }
                angles.turn(isa, rope, row, head_dim, heads);
            }
        };
        let cache = cache.writer();
        let store = |head: usize| {
            for (i, row) in batch.rows.iter().enumerate() {
                let start = i * kv_width + head * head_dim;
                let place = start..start + head_dim;
                let table = &batch.tables[row.sequence as usize];
                // SAFETY: all keys have been turned, and a head belongs to one thread.
                unsafe {
                    let key = both[1].0.slice(place.clone());
                    cache.store(table, row.position as usize, head, key, &values[place]);
                }
            }
        };
        if rows < MANY {
            (0..rows).for_each(turn);
            (0..kv_heads).for_each(store);
            return;
        }
        pool.run(|worker| {
            worker.split(rows, 1).for_each(turn);
            worker.barrier();
            worker.split(kv_heads, 1).for_each(store);
        });
    }
}
