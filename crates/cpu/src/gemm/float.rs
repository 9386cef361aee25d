//! Products of F32, F16 and BF16 matrices.
//!
//! A lane of a vector is a column here, modulo 16: each of 16 partial sums runs over its
//! columns in order, and at the end they are added pairwise. As in the quantized products, the
//! order is the same whatever the batch, the threads and the instruction set.

use std::ops::Range;

use super::job::Job;
use super::prefetch::{RangePrefetch, prefetch_rows};
use super::scratch;
use super::tile::{self, BLOCK};
use super::vectors::{Rows, Vectors};
use crate::memory::prefetch::{Level, prefetch};

/// Partial sums of a row.
const WIDTH: usize = 16;
/// Rows of weights in a tile.
const ROWS: usize = 4;
/// Activation rows up to which weights are multiplied as they are read. With more rows they are
/// converted to f32 in memory first.
const MAX_DIRECT: usize = 4;
/// Columns multiplied at a time: a chunk of the activations.
const CHUNK: usize = tile::CHUNK * BLOCK;
/// Rows of weights in f32 at a time: with two tiles of activations a chunk of them fits into a
/// first-level cache.
const GROUP: usize = 8;
/// Elements from one of these rows to the next: not a power of two, with which they would compete
/// for a few sets of the cache.
const PITCH: usize = CHUNK + WIDTH;
/// Bytes of activations multiplied with all weights before the next: a fraction of a second-level
/// cache.
const STRIP_BYTES: usize = 1 << 20;

/// An element type.
pub(super) trait Element {
    const BYTES: usize;

    /// Loads `S::LANES` neighbouring elements.
    ///
    /// # Safety
    /// They are readable, and the instructions of `S` exist.
    unsafe fn load<S: Vectors>(from: *const u8) -> S::F;
}

macro_rules! element {
    ($name:ident, $bytes:literal, $load:ident) => {
        pub(super) struct $name;

        impl Element for $name {
            const BYTES: usize = $bytes;

            #[inline(always)]
            unsafe fn load<S: Vectors>(from: *const u8) -> S::F {
                // SAFETY: the caller's promise.
                unsafe { S::$load(from) }
            }
        }
    };
}

element!(F32, 4, load_f32);
element!(F16, 2, load_f16);
element!(BF16, 2, load_bf16);

/// Computes the job's rows; `V` vectors of `S` make 16 lanes.
///
/// # Safety
/// The instructions of `S` exist, and the job's promises hold (see [`Job`]).
#[inline(always)]
pub(super) unsafe fn run<S: Vectors, E: Element, const V: usize>(job: &Job<'_>) {
    const { assert!(V * S::LANES == WIDTH) };
    // SAFETY: the caller's promise.
    unsafe {
        match (job.batch, V) {
            (1, _) => direct::<S, E, V, 1>(job),
            (2, _) => direct::<S, E, V, 2>(job),
            (..=MAX_DIRECT, 1) => direct::<S, E, V, MAX_DIRECT>(job),
            // As many sums as fit into registers.
            (..=8, 1) => packed::<S, E, V, 4, 4>(job),
            (_, 1) => packed::<S, E, V, 4, 6>(job),
            _ => packed::<S, E, V, 2, 3>(job),
        }
    }
}

/// Chunk `chunk` of `MR` activation rows from `row` on, as f32.
///
/// # Safety
/// The job's promises hold, and there is such a chunk.
#[inline(always)]
unsafe fn activation_rows<const MR: usize>(
    job: &Job<'_>,
    row: usize,
    chunk: usize,
) -> [*const f32; MR] {
    // SAFETY: the caller's promise.
    let rows: [_; MR] =
        unsafe { job.activation_rows(job.floats.cast::<[f32; BLOCK]>(), row, chunk) };
    rows.map(|row| row.cast())
}

/// The product for at most `MR` activation rows: weights are used as they are read.
///
/// # Safety
/// As for [`run`].
#[inline(always)]
unsafe fn direct<S: Vectors, E: Element, const V: usize, const MR: usize>(job: &Job<'_>) {
    let start = job.weights.wrapping_add(job.rows.start * job.row_bytes);
    let mut prefetch =
        RangePrefetch::new(start, job.rows.len() * job.row_bytes, ROWS * job.row_bytes);
    let mut row = job.rows.start;
    while row < job.rows.end {
        // SAFETY: the caller's promise; the rows exist.
        unsafe {
            if job.rows.end - row >= ROWS {
                direct_rows::<S, E, V, ROWS, MR>(job, row, &mut prefetch);
                row += ROWS;
            } else {
                direct_rows::<S, E, V, 1, MR>(job, row, &mut prefetch);
                row += 1;
            }
        }
    }
}

/// [`direct`] for `NR` rows of weights.
///
/// # Safety
/// As for [`run`]; the rows exist.
#[inline(always)]
unsafe fn direct_rows<S: Vectors, E: Element, const V: usize, const NR: usize, const MR: usize>(
    job: &Job<'_>,
    row: usize,
    prefetch: &mut RangePrefetch,
) {
    // SAFETY: the caller's promise. Activations are padded with zeros to a multiple of `WIDTH`;
    // the last columns of weights, if they do not fill a step, are copied before they are read.
    unsafe {
        let mut sums = [[[S::splat(0.0); V]; MR]; NR];
        let first = job.weights.add(row * job.row_bytes);
        let mut weights = Rows { first, stride: job.row_bytes };
        for chunk in 0..job.cols.div_ceil(CHUNK) {
            let mut x = activation_rows::<MR>(job, 0, chunk);
            let cols = CHUNK.min(job.cols - chunk * CHUNK);
            for _ in 0..cols / WIDTH {
                prefetch.advance(NR * WIDTH * E::BYTES);
                step::<S, E, V, NR, MR>(weights, x, &mut sums);
                weights.first = weights.first.wrapping_add(WIDTH * E::BYTES);
                for x in &mut x {
                    *x = x.wrapping_add(WIDTH);
                }
            }
            if !cols.is_multiple_of(WIDTH) {
                let mut last = [[0_u8; WIDTH * 4]; NR];
                for (n, last) in last.iter_mut().enumerate() {
                    let from = weights.first.add(n * weights.stride);
                    let bytes = cols % WIDTH * E::BYTES;
                    std::ptr::copy_nonoverlapping(from, last.as_mut_ptr(), bytes);
                }
                let weights = Rows { first: last.as_ptr().cast(), stride: WIDTH * 4 };
                step::<S, E, V, NR, MR>(weights, x, &mut sums);
            }
        }
        finish::<S, V, NR, MR>(job, row, NR, 0, (&raw const sums).cast());
    }
}

/// The product for many activation rows: a chunk of the columns of `GROUP` rows of weights is
/// converted to f32 in the first-level cache, and multiplied with tiles of `MR` activation rows.
/// Partial sums are kept in memory between chunks.
///
/// # Safety
/// As for [`run`].
#[inline(always)]
unsafe fn packed<S: Vectors, E: Element, const V: usize, const NR: usize, const MR: usize>(
    job: &Job<'_>,
) {
    const { assert!(GROUP.is_multiple_of(NR)) };
    let strip = (STRIP_BYTES / (job.cols * size_of::<f32>())).next_multiple_of(MR);
    let strip = strip.max(MR).min(job.batch.next_multiple_of(MR));
    let weights = GROUP * PITCH * size_of::<f32>();
    let sums = GROUP * strip * WIDTH * size_of::<f32>();
    let mut scratch = scratch::alloc(weights + sums);
    let start = scratch.as_mut_ptr().cast::<u8>();
    let weights: *mut f32 = start.cast();
    let sums: *mut S::F = start.wrapping_add(GROUP * PITCH * 4).cast();
    for first in (0..job.batch).step_by(strip) {
        let strip = first..job.batch.min(first + strip);
        for row in job.rows.clone().step_by(GROUP) {
            let rows = row..job.rows.end.min(row + GROUP);
            for col in (0..job.cols).step_by(CHUNK) {
                let cols = col..job.cols.min(col + CHUNK);
                // SAFETY: the caller's promise; there is room for the weights and for the sums of
                // the strip, both aligned.
                unsafe {
                    unpack::<S, E>(job, rows.clone(), cols.clone(), weights);
                    let mut sums = sums;
                    for x in strip.clone().step_by(MR) {
                        for n in (0..rows.len()).step_by(NR) {
                            let weights = weights.add(n * PITCH).cast_const();
                            let rows = rows.start + n..rows.end;
                            let ahead = n == 0;
                            through::<S, V, NR, MR>(
                                job,
                                rows,
                                cols.clone(),
                                x,
                                weights,
                                ahead,
                                sums,
                            );
                            sums = sums.add(NR * MR * V);
                        }
                    }
                }
            }
        }
    }
    scratch::free(scratch);
}

/// Converts columns of weights to f32, padded with zeros to a multiple of `WIDTH`, and prefetches as
/// many after them.
///
/// # Safety
/// The rows and columns exist, the instructions of `S` too, and there is room at `to`.
#[inline(always)]
unsafe fn unpack<S: Vectors, E: Element>(
    job: &Job<'_>,
    rows: Range<usize>,
    cols: Range<usize>,
    mut to: *mut f32,
) {
    let whole = cols.len() / S::LANES * S::LANES;
    // SAFETY: the caller's promise; the last columns are copied before they are read, and a row
    // at `to` has room for a multiple of `WIDTH` elements.
    unsafe {
        let first = job.weights.add(rows.start * job.row_bytes + cols.start * E::BYTES);
        let mut weights = Rows { first, stride: job.row_bytes };
        let bytes = cols.len() * E::BYTES;
        let next = weights.first.wrapping_add(bytes);
        prefetch_rows(Rows { first: next, ..weights }, rows.len(), bytes);
        for _ in rows {
            for col in (0..whole).step_by(S::LANES) {
                S::store(E::load::<S>(weights.first.add(col * E::BYTES)), to.add(col));
            }
            for col in (whole..cols.len().next_multiple_of(WIDTH)).step_by(S::LANES) {
                let mut last = [0_u8; WIDTH * 4];
                let rest = cols.len().saturating_sub(col).min(S::LANES) * E::BYTES;
                let from = weights.first.add(cols.len().min(col) * E::BYTES);
                std::ptr::copy_nonoverlapping(from, last.as_mut_ptr(), rest);
                S::store(E::load::<S>(last.as_ptr()), to.add(col));
            }
            weights.first = weights.first.wrapping_add(job.row_bytes);
            to = to.add(PITCH);
        }
    }
}

/// Multiplies `MR` activation rows from `x` on with a chunk of the columns of `NR` rows of weights,
/// of which `rows` are kept. With `ahead` it prefetches the next tile of activations.
///
/// # Safety
/// As for [`run`]; the weights have been unpacked, and `so_far` has room for the sums and
/// holds those of the columns before the chunk, if any.
#[inline(always)]
unsafe fn through<S: Vectors, const V: usize, const NR: usize, const MR: usize>(
    job: &Job<'_>,
    rows: Range<usize>,
    cols: Range<usize>,
    x: usize,
    weights: *const f32,
    ahead: bool,
    so_far: *mut S::F,
) {
    // SAFETY: the caller's promise; both sides are padded to a multiple of `WIDTH`.
    unsafe {
        let mut sums = [[[S::splat(0.0); V]; MR]; NR];
        if cols.start > 0 {
            each::<V, NR, MR>(|n, r, v, at| sums[n][r][v] = *so_far.add(at));
        }
        let mut activations = activation_rows::<MR>(job, x, cols.start / CHUNK);
        let mut weights = Rows { first: weights.cast(), stride: PITCH * size_of::<f32>() };
        for _ in 0..cols.len().div_ceil(WIDTH) {
            if ahead {
                for x in activations {
                    prefetch(x.wrapping_add(MR * CHUNK).cast(), Level::First);
                }
            }
            step::<S, F32, V, NR, MR>(weights, activations, &mut sums);
            weights.first = weights.first.wrapping_add(WIDTH * size_of::<f32>());
            for x in &mut activations {
                *x = x.wrapping_add(WIDTH);
            }
        }
        each::<V, NR, MR>(|n, r, v, at| *so_far.add(at) = sums[n][r][v]);
        if cols.end == job.cols {
            finish::<S, V, NR, MR>(job, rows.start, rows.len().min(NR), x, so_far);
        }
    }
}

/// Calls `f` with the indices of each sum of a tile and its index in memory. Arrays that are copied
/// as a whole would not be kept in registers.
#[inline(always)]
fn each<const V: usize, const NR: usize, const MR: usize>(
    mut f: impl FnMut(usize, usize, usize, usize),
) {
    for n in 0..NR {
        for r in 0..MR {
            for v in 0..V {
                f(n, r, v, (n * MR + r) * V + v);
            }
        }
    }
}

/// Writes the results of `rows` rows of weights from `row` on, and of `MR` activation rows from
/// `x` on.
///
/// # Safety
/// The job's promises hold, and at `sums` are those of the tile.
#[inline(always)]
unsafe fn finish<S: Vectors, const V: usize, const NR: usize, const MR: usize>(
    job: &Job<'_>,
    row: usize,
    rows: usize,
    x: usize,
    sums: *const S::F,
) {
    for r in 0..MR.min(job.batch - x) {
        let mut results = [0.0; NR];
        for (n, result) in results.iter_mut().enumerate() {
            // SAFETY: there are so many sums, of `V` vectors or `WIDTH` lanes each.
            *result = sum(unsafe { &*sums.add((n * MR + r) * V).cast() });
        }
        // SAFETY: no other thread writes this job's results.
        unsafe { job.output(x + r, row, &results[..rows]) };
    }
}

/// Adds the products of `WIDTH` columns.
///
/// # Safety
/// They are readable in all rows, and the instructions of `S` exist.
#[inline(always)]
unsafe fn step<S: Vectors, E: Element, const V: usize, const NR: usize, const MR: usize>(
    weights: Rows,
    activations: [*const f32; MR],
    sums: &mut [[[S::F; V]; MR]; NR],
) {
    // SAFETY: the caller's promise.
    unsafe {
        #[expect(clippy::needless_range_loop, reason = "it indexes inside of the sums")]
        for v in 0..V {
            let mut w = [S::splat(0.0); NR];
            for (n, w) in w.iter_mut().enumerate() {
                let at = n * weights.stride + v * S::LANES * E::BYTES;
                *w = E::load::<S>(weights.first.add(at));
            }
            for r in 0..MR {
                let x = S::load_f32(activations[r].add(v * S::LANES).cast());
                for n in 0..NR {
                    sums[n][r][v] = S::fma(w[n], x, sums[n][r][v]);
                }
            }
        }
    }
}

/// The sum of the partial sums: halves onto halves, down to one.
#[inline(always)]
fn sum(lanes: &[f32; WIDTH]) -> f32 {
    // arrays of their own: in place the additions would be done one by one
    let (mut eight, mut four) = ([0.0; 8], [0.0; 4]);
    for i in 0..8 {
        eight[i] = lanes[i] + lanes[i + 8];
    }
    for i in 0..4 {
        four[i] = eight[i] + eight[i + 4];
    }
    (four[0] + four[2]) + (four[1] + four[3])
}
