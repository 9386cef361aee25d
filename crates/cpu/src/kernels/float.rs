//! Products of matrices of plain numbers: F32, F16 and BF16.
//!
//! A lane of a vector is a column here, modulo 16: each of 16 partial sums runs over its
//! columns in order, and at the end they are added pairwise. As in the quantized products, the
//! order is the same whatever the batch, the threads and the instruction set.

use super::Job;
use super::prefetch::Prefetch;
use super::simd::Simd;

/// Partial sums of a row.
const WIDTH: usize = 16;
/// Rows of weights in a tile.
const ROWS: usize = 4;
/// Bytes of weights taken through all activations before the next: a part of a second-level
/// cache.
const GROUP_BYTES: usize = 256 << 10;

/// A type of plain numbers.
pub(super) trait Number {
    const BYTES: usize;

    /// `S::LANES` neighbouring numbers.
    ///
    /// # Safety
    /// They are readable, and the instructions of `S` exist.
    unsafe fn load<S: Simd>(from: *const u8) -> S::F;
}

macro_rules! number {
    ($name:ident, $bytes:literal, $load:ident) => {
        pub(super) struct $name;

        impl Number for $name {
            const BYTES: usize = $bytes;

            #[inline(always)]
            unsafe fn load<S: Simd>(from: *const u8) -> S::F {
                // SAFETY: the caller's promise.
                unsafe { S::$load(from) }
            }
        }
    };
}

number!(F32, 4, load_f32);
number!(F16, 2, load_f16);
number!(BF16, 2, load_bf16);

/// Computes the job's rows; `V` vectors of `S` make 16 lanes.
///
/// # Safety
/// The instructions of `S` exist, and the job's promises hold (see [`Job`]).
#[inline(always)]
pub(super) unsafe fn run<S: Simd, E: Number, const V: usize>(job: &Job<'_>) {
    const { assert!(V * S::LANES == WIDTH) };
    // SAFETY: the caller's promise.
    unsafe {
        // As many sums as fit into registers.
        match (job.batch, V) {
            (1, _) => groups::<S, E, V, 1>(job),
            (4.., 1) => groups::<S, E, V, 4>(job),
            _ => groups::<S, E, V, 2>(job),
        }
    }
}

/// Computes the job's rows in tiles of `BATCH` activation rows.
///
/// # Safety
/// As for [`run`].
#[inline(always)]
unsafe fn groups<S: Simd, E: Number, const V: usize, const BATCH: usize>(job: &Job<'_>) {
    let group = (GROUP_BYTES / job.row_bytes).max(ROWS);
    // With more activation rows the arithmetic takes longer than the memory.
    let mut prefetch = if BATCH == 1 {
        let start = job.weights.wrapping_add(job.rows.start * job.row_bytes);
        Prefetch::new(start, job.rows.len() * job.row_bytes, ROWS * job.row_bytes)
    } else {
        Prefetch::none()
    };
    let mut first = job.rows.start;
    while first < job.rows.end {
        let end = job.rows.end.min(first + group);
        let mut x = 0;
        while x < job.batch {
            let batch = if job.batch - x >= BATCH { BATCH } else { 1 };
            let mut row = first;
            while row < end {
                let rows = if end - row >= ROWS { ROWS } else { 1 };
                // SAFETY: the caller's promise; the rows exist.
                unsafe {
                    match (rows == ROWS, batch == BATCH) {
                        (true, true) => tile::<S, E, V, ROWS, BATCH>(job, row, x, &mut prefetch),
                        (true, false) => tile::<S, E, V, ROWS, 1>(job, row, x, &mut prefetch),
                        (false, true) => tile::<S, E, V, 1, BATCH>(job, row, x, &mut prefetch),
                        (false, false) => tile::<S, E, V, 1, 1>(job, row, x, &mut prefetch),
                    }
                }
                row += rows;
            }
            x += batch;
        }
        first = end;
    }
}

/// The products of `NR` rows of weights with `MR` of activations.
///
/// # Safety
/// As for [`run`]; the rows exist.
#[inline(always)]
unsafe fn tile<S: Simd, E: Number, const V: usize, const NR: usize, const MR: usize>(
    job: &Job<'_>,
    row: usize,
    x: usize,
    prefetch: &mut Prefetch,
) {
    let whole = job.cols / WIDTH * WIDTH;
    // SAFETY: the rows exist, and activations are padded with zeros to a multiple of `WIDTH`.
    // The last columns of weights, if they do not fill a step, are copied before they are read.
    unsafe {
        let mut sums = [[[S::splat(0.0); V]; MR]; NR];
        let activations = job.floats.add(x * job.row_floats);
        let weights = job.weights.add(row * job.row_bytes);
        for col in (0..whole).step_by(WIDTH) {
            if MR == 1 {
                prefetch.advance(NR * WIDTH * E::BYTES);
            }
            let at = weights.add(col * E::BYTES);
            step::<S, E, V, NR, MR>(at, job.row_bytes, activations.add(col), job, &mut sums);
        }
        if whole < job.cols {
            let mut last = [[0_u8; WIDTH * 4]; NR];
            for (n, last) in last.iter_mut().enumerate() {
                let at = weights.add(n * job.row_bytes + whole * E::BYTES);
                let bytes = (job.cols - whole) * E::BYTES;
                std::ptr::copy_nonoverlapping(at, last.as_mut_ptr(), bytes);
            }
            let at = last.as_ptr().cast();
            step::<S, E, V, NR, MR>(at, WIDTH * 4, activations.add(whole), job, &mut sums);
        }
        for r in 0..MR {
            let mut results = [0.0; NR];
            for (result, sums) in results.iter_mut().zip(&sums) {
                let mut lanes = [0.0; WIDTH];
                for (lanes, sums) in lanes.chunks_exact_mut(S::LANES).zip(sums[r]) {
                    S::store(sums, lanes.as_mut_ptr());
                }
                *result = sum(lanes);
            }
            job.output(x + r, row, &results);
        }
    }
}

/// Adds the products of `WIDTH` columns.
///
/// # Safety
/// They are readable in all rows, `stride` bytes apart, and the instructions of `S` exist.
#[inline(always)]
unsafe fn step<S: Simd, E: Number, const V: usize, const NR: usize, const MR: usize>(
    weights: *const u8,
    stride: usize,
    activations: *const f32,
    job: &Job<'_>,
    sums: &mut [[[S::F; V]; MR]; NR],
) {
    // SAFETY: the caller's promise.
    unsafe {
        for v in 0..V {
            let mut x = [S::splat(0.0); MR];
            for (r, x) in x.iter_mut().enumerate() {
                let at = activations.add(r * job.row_floats + v * S::LANES);
                *x = S::load_f32(at.cast());
            }
            for (n, sums) in sums.iter_mut().enumerate() {
                let w = E::load::<S>(weights.add(n * stride + v * S::LANES * E::BYTES));
                for (r, sums) in sums.iter_mut().enumerate() {
                    sums[v] = S::fma(w, x[r], sums[v]);
                }
            }
        }
    }
}

/// The sum of the partial sums: halves onto halves, down to one.
#[inline(always)]
fn sum(mut lanes: [f32; WIDTH]) -> f32 {
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
    }
    lanes[0]
}
