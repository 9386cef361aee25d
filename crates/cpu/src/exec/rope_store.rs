//! Norms and rotations of query and key heads, and the store of keys and values.

use pelton_graph::{Error, Rope, RopeStyle};

use super::norms::{HeadNormRow, NormWeights};
use crate::batch::Batch;
use crate::isa::Isa;
use crate::memory::{AlignedBuf, KvCache};
use crate::pool::{Pool, SharedMut};
use crate::simd::{Body, Simd, dispatch};

/// Rows from which the threads of the pool do it in parallel: fewer take less time than the start
/// of a region.
const MANY: usize = 8;

/// The rotation of each row of a batch: cosines and sines `[rows, pairs]`.
pub(super) struct Angles {
    cos: AlignedBuf,
    sin: AlignedBuf,
}

impl Angles {
    /// Allocates for a rotation of `rows` rows.
    ///
    /// # Errors
    /// [`Error::Memory`] if the system refuses the memory.
    pub(super) fn new(rope: &Rope, rows: usize) -> Result<Self, Error> {
        let zeroed = || AlignedBuf::zeroed("rotary embeddings", rows, rope.frequencies.len());
        Ok(Self { cos: zeroed()?, sin: zeroed()? })
    }

    /// Bytes that [`new`](Self::new) allocates.
    pub(super) fn bytes(rope: &Rope, rows: usize) -> u128 {
        AlignedBuf::bytes(rows, rope.frequencies.len()).saturating_mul(2)
    }

    /// Computes the rotations of the positions of a batch.
    pub(super) fn begin(&mut self, rope: &Rope, batch: &Batch<'_>) {
        let angles = self.cos.iter_mut().zip(self.sin.iter_mut());
        let pairs = batch.rows.iter().flat_map(|row| {
            let frequencies = rope.frequencies.iter().enumerate();
            frequencies.map(|(i, &frequency)| (rope.coordinate(i, row.place.at), frequency))
        });
        for ((position, frequency), (to_cos, to_sin)) in pairs.zip(angles) {
            let (sin, cos) = (f64::from(position) * f64::from(frequency)).sin_cos();
            (*to_cos, *to_sin) = (cos as f32 * rope.factor, sin as f32 * rope.factor);
        }
    }

    /// Rotates the heads `[heads, head_dim]` of row `row` of the batch.
    pub(super) fn rotate(
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
        dispatch(isa, RotateRow { style: rope.style, cos, sin, head_dim, heads });
    }
}

struct RotateRow<'a> {
    style: RopeStyle,
    cos: &'a [f32],
    sin: &'a [f32],
    head_dim: usize,
    heads: &'a mut [f32],
}

impl Body for RotateRow<'_> {
    /// The compiler turns these loops into vectors of the instruction set.
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let pairs = self.cos.len();
        for head in self.heads.chunks_exact_mut(self.head_dim) {
            let head = &mut head[..2 * pairs];
            match self.style {
                RopeStyle::Halves => rotate_halves(head, self.cos, self.sin),
                RopeStyle::HalvesOfHalves => {
                    let halves = head.chunks_exact_mut(pairs);
                    let angles =
                        self.cos.chunks_exact(pairs / 2).zip(self.sin.chunks_exact(pairs / 2));
                    for (half, (cos, sin)) in halves.zip(angles) {
                        rotate_halves(half, cos, sin);
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

/// Rotates the pairs `i` and `i + pairs`.
#[inline(always)]
fn rotate_halves(head: &mut [f32], cos: &[f32], sin: &[f32]) {
    let (a, b) = head.split_at_mut(cos.len());
    for (((a, b), cos), sin) in a.iter_mut().zip(b).zip(cos).zip(sin) {
        (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
    }
}

/// Queries or keys of all rows `[rows, width]`.
pub(super) struct Heads<'a> {
    pub(super) values: &'a mut [f32],
    /// Elements of a row.
    pub(super) width: usize,
    pub(super) norm: Option<NormWeights<'a>>,
}

/// [`Op::RopeStore`](pelton_graph::Op::RopeStore): norms and rotates queries and keys in place, and
/// stores keys and values.
pub(super) struct RopeStoreRows<'a> {
    pub(super) rope: &'a Rope,
    pub(super) angles: &'a Angles,
    pub(super) queries: Heads<'a>,
    pub(super) keys: Heads<'a>,
    pub(super) values: &'a [f32],
    pub(super) cache: &'a mut KvCache,
}

impl RopeStoreRows<'_> {
    pub(super) fn run(self, pool: &Pool, isa: Isa, batch: &Batch<'_>) {
        let Self { rope, angles, queries, keys, values, cache } = self;
        let (head_dim, value_dim) = (cache.shape().key_dim, cache.shape().value_dim());
        let kv_heads = cache.shape().heads;
        let (rows, k_width, v_width) = (batch.rows.len(), keys.width, kv_heads * value_dim);
        let both = [queries, keys].map(|Heads { values, width, norm }| {
            (SharedMut::new(&mut values[..rows * width]), width, norm)
        });
        let rotate = |row: usize| {
            for (values, width, norm) in &both {
                // SAFETY: one thread computes a row.
                let heads = unsafe { values.slice_mut(row * width..(row + 1) * width) };
                if let Some(norm) = *norm {
                    dispatch(isa, HeadNormRow { x: heads, head_dim, norm });
                }
                angles.rotate(isa, rope, row, head_dim, heads);
            }
        };
        let group = cache.shape().group;
        let cache = cache.writer();
        let store = |head: usize| {
            for (i, row) in batch.rows.iter().enumerate() {
                let start = i * k_width + head * head_dim;
                let place = start..start + head_dim;
                let of_value = i * v_width + head * value_dim;
                let value = &values[of_value..of_value + value_dim];
                let table = batch.table(group, row);
                // SAFETY: all keys have been rotated, and one thread stores a head.
                unsafe {
                    let key = both[1].0.slice(place);
                    cache.store(table, row.position as usize, head, key, value);
                }
            }
        };
        if rows < MANY {
            (0..rows).for_each(rotate);
            (0..kv_heads).for_each(store);
            return;
        }
        pool.run(|worker| {
            worker.split(rows, 1).for_each(rotate);
            worker.barrier();
            worker.split(kv_heads, 1).for_each(store);
        });
    }
}
