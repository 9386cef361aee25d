//! The distribution of rows and elements over the threads, and ops on rows.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use pelton_graph::{Error, Pooling, StridedCopy};

use crate::batch::Batch;
use crate::memory::KvCache;
use crate::pool::{Pool, SharedMut};
use crate::simd::{Body, LANES, Simd};

/// Elements from which the threads of the pool run an op in parallel: fewer take less time than
/// the start of a region.
const MANY: usize = 1 << 14;
/// Rows from which keys and values are stored in parallel.
const MANY_STORES: usize = 8;

/// Calls `work` with each row of `x` `[rows, width]`.
pub(super) fn each_row(
    pool: &Pool,
    x: &mut [f32],
    width: usize,
    work: impl Fn(usize, &mut [f32]) + Sync,
) {
    let rows = x.len() / width;
    if x.len() < MANY || rows == 1 {
        x.chunks_exact_mut(width).enumerate().for_each(|(row, x)| work(row, x));
        return;
    }
    let x = SharedMut::new(x);
    pool.run(|worker| {
        for row in worker.split(rows, 1) {
            // SAFETY: one thread computes a row.
            work(row, unsafe { x.slice_mut(row * width..(row + 1) * width) });
        }
    });
}

/// As [`each_row`], for work that can fail.
///
/// # Errors
/// The first error of one of the threads.
pub(super) fn try_each_row(
    pool: &Pool,
    x: &mut [f32],
    width: usize,
    work: impl Fn(usize, &mut [f32]) -> Result<(), Error> + Sync,
) -> Result<(), Error> {
    let failed = Mutex::new(None);
    each_row(pool, x, width, |row, x| {
        if let Err(error) = work(row, x) {
            failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// Calls `work` with ranges of `x` and their first index.
pub(super) fn each_range(pool: &Pool, x: &mut [f32], work: impl Fn(usize, &mut [f32]) + Sync) {
    if x.len() < MANY {
        return work(0, x);
    }
    let (len, x) = (x.len(), SharedMut::new(x));
    pool.run(|worker| {
        let range = worker.split(len, LANES);
        // SAFETY: one thread computes an element.
        work(range.start, unsafe { x.slice_mut(range) });
    });
}

/// `x + y`, in place.
pub(super) struct AddTo<'a> {
    pub(super) x: &'a mut [f32],
    pub(super) y: &'a [f32],
}

impl Body for AddTo<'_> {
    /// The compiler turns the loop into vectors of the instruction set.
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for (x, y) in self.x.iter_mut().zip(self.y) {
            *x += y;
        }
    }
}

/// A strided copy from a row to another.
pub(super) fn copy_row(copy: &StridedCopy, x: &[f32], y: &mut [f32]) {
    let &StridedCopy { count, width, from, to } = copy;
    for i in 0..count {
        let (from, to) = (from.offset + i * from.stride, to.offset + i * to.stride);
        y[to..to + width].copy_from_slice(&x[from..from + width]);
    }
}

/// `1 + beta · ln(1 + ⌊(position + offset) / interval⌋)`.
pub(super) fn temper(beta: f32, interval: usize, offset: usize, position: u32) -> f32 {
    let steps = (position as usize).saturating_add(offset) / interval;
    (1.0 + f64::from(beta) * (1.0 + steps as f64).ln()) as f32
}

/// `Σ_s weights[s] · y[s]` of `y` `[used, width]`.
pub(super) struct WeightedSum<'a> {
    pub(super) y: &'a [f32],
    pub(super) weights: &'a [f32],
    pub(super) o: &'a mut [f32],
}

impl Body for WeightedSum<'_> {
    /// The compiler turns the loops into vectors of the instruction set.
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { y, weights, o } = self;
        for (s, (y, &weight)) in y.chunks_exact(o.len()).zip(weights).enumerate() {
            for (o, y) in o.iter_mut().zip(y) {
                *o = if s == 0 { weight * y } else { *o + weight * y };
            }
        }
    }
}

/// Summaries of sequences, from `x` `[rows, width]` to `y` `[selected, width]`.
pub(super) fn pool_rows(
    pool: &Pool,
    pooling: Pooling,
    batch: &Batch<'_>,
    x: &[f32],
    y: &mut [f32],
    width: usize,
) {
    let row = |i: usize| &x[i * width..(i + 1) * width];
    let rows = SharedMut::new(y);
    let work = |columns: Range<usize>| {
        for (i, &selected) in batch.selected.iter().enumerate() {
            let slot = batch.rows[selected as usize].slot;
            let mut of_slot = (0..batch.rows.len()).filter(|&i| batch.rows[i].slot == slot);
            let place = i * width + columns.start..i * width + columns.end;
            // SAFETY: one thread computes a column.
            let y = unsafe { rows.slice_mut(place) };
            let one = match pooling {
                Pooling::First => of_slot.next(),
                Pooling::Last => of_slot.next_back(),
                Pooling::Mean => None,
            };
            match one {
                Some(one) => y.copy_from_slice(&row(one)[columns.clone()]),
                None => mean(of_slot.map(|i| &row(i)[columns.clone()]), y),
            }
        }
    };
    if x.len() < MANY {
        return work(0..width);
    }
    pool.run(|worker| work(worker.split(width, LANES)));
}

/// The mean of rows, with sums in f64.
fn mean<'a>(rows: impl Iterator<Item = &'a [f32]> + Clone, y: &mut [f32]) {
    let count = rows.clone().count() as f64;
    for (block, y) in y.chunks_mut(LANES).enumerate() {
        let mut sums = [0.0; LANES];
        for row in rows.clone() {
            for (sum, &x) in sums.iter_mut().zip(&row[block * LANES..]) {
                *sum += f64::from(x);
            }
        }
        for (y, sum) in y.iter_mut().zip(sums) {
            *y = (sum / count) as f32;
        }
    }
}

/// Stores the keys `[rows, heads, key_dim]` and values `[rows, heads, value_dim]` of a batch. The
/// values are empty if they are part of the keys.
pub(super) fn store_rows(
    pool: &Pool,
    cache: &mut KvCache,
    batch: &Batch<'_>,
    keys: &[f32],
    values: &[f32],
) {
    let shape = cache.shape();
    let (key_dim, value_dim) = (shape.key_dim, cache.stored_value_dim());
    let cache = cache.writer();
    let store = |head: usize| {
        for (i, row) in batch.rows.iter().enumerate() {
            let index = i * shape.heads + head;
            let key = &keys[index * key_dim..(index + 1) * key_dim];
            let value = &values[index * value_dim..(index + 1) * value_dim];
            let table = batch.table(shape.group, row);
            // SAFETY: one thread stores a head.
            unsafe { cache.store(table, row.position as usize, head, key, value) };
        }
    };
    if batch.rows.len() < MANY_STORES || shape.heads == 1 {
        return (0..shape.heads).for_each(store);
    }
    pool.run(|worker| worker.split(shape.heads, 1).for_each(store));
}
