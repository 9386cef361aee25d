//! Products of F32, F16 and BF16 matrices with rows of decoding and verification.
//!
//! A lane of a vector is a column here, modulo 16: each of 16 partial sums of a result runs over
//! its columns in order, and at the end they are added pairwise. So weights are multiplied as they
//! are read, without a transposition. One activation row multiplies one row of weights after the
//! other, as the CPU's prefetchers follow one stream better than several. Wide activation rows
//! share the loads of several rows of weights. The order is the same whatever the batch, the
//! threads and the instruction set; it differs from that of prompts (`float.rs`).
//!
//! A plan has these kernels if at least an eighth of its weights are of these types, and its
//! phases then do not agree (`Pipeline::phases_agree`). Other plans multiply these weights by the
//! kernels of prompts only, but for routers of mixtures. These have the kernels of decoding in
//! both phases: a prompt spends little on them, and a token would spend a twentieth of its time on
//! their transposition.

use std::ops::Range;

use super::float_kernels::Element;
use super::job::Job;
use super::prefetch::{RangePrefetch, prefetch_next_page};
use super::tile::{BLOCK, CHUNK};
use super::vectors::{Rows, Vectors};

/// Partial sums of a result.
const WIDTH: usize = 16;
/// Columns of a chunk of the activations.
const COLUMNS: usize = CHUNK * BLOCK;
/// Bytes of weights that are multiplied with all activation rows before the next: a part of a
/// first-level cache.
const STRIP_BYTES: usize = 16 << 10;

/// Columns of activation rows that leave half of a first-level cache to the weights. More are read
/// from the second-level cache for each row of weights, so that several rows share them.
const NARROW: usize = 4096;

/// A kernel that multiplies some rows of the matrix with activation rows from some row on.
pub(super) type RowsFn = unsafe fn(&Job<'_>, Range<usize>, usize, &mut RangePrefetch);

/// A kernel that multiplies `rows` rows of the matrix at a time with up to `inputs` activation
/// rows.
pub(super) struct DecodeKernel {
    pub(super) inputs: usize,
    pub(super) rows: usize,
    pub(super) run: RowsFn,
}

/// The kernels of an element type, for an instruction set.
pub(super) struct DecodeKernels {
    /// For one activation row and for two, of up to [`NARROW`] columns together.
    pub(super) narrow: [DecodeKernel; 2],
    /// For any others; those for the most activation rows first.
    pub(super) wide: [DecodeKernel; 3],
}

impl DecodeKernels {
    /// The kernel for `left` activation rows, or for the first of them.
    fn kernel(&self, left: usize, cols: usize) -> &DecodeKernel {
        if let Some(kernel) = self.narrow.get(left - 1).filter(|_| left * cols <= NARROW) {
            return kernel;
        }
        // the last rows in one kernel, of more rows if need be
        self.wide.iter().rev().find(|kernel| kernel.inputs >= left).unwrap_or(&self.wide[0])
    }
}

/// Computes the job's rows.
///
/// # Safety
/// The instructions of the kernels exist, and the job's promises hold (see [`Job`]).
pub(super) unsafe fn run(job: &Job<'_>, kernels: &DecodeKernels) {
    let start = job.weights.wrapping_add(job.rows.start * job.row_bytes);
    let first = kernels.kernel(job.batch, job.cols);
    let lead = first.rows * job.row_bytes;
    let mut prefetch = RangePrefetch::new(start, job.rows.len() * job.row_bytes, lead);
    let strip = match first.inputs >= job.batch {
        true => job.rows.len(),
        false => (STRIP_BYTES / job.row_bytes).max(1).next_multiple_of(first.rows),
    };
    for row in job.rows.clone().step_by(strip) {
        let rows = row..job.rows.end.min(row + strip);
        let mut x = 0;
        let mut idle = RangePrefetch::idle();
        while x < job.batch {
            let kernel = kernels.kernel(job.batch - x, job.cols);
            let prefetch = if x == 0 { &mut prefetch } else { &mut idle };
            // SAFETY: the caller's promise; the rows are some of the job's.
            unsafe { (kernel.run)(job, rows.clone(), x, prefetch) };
            x += kernel.inputs;
        }
    }
}

/// Multiplies rows of the matrix, `NR` at a time, with `MR` activation rows from `x` on; those
/// beyond the batch are dropped. One or two vectors of `S` make 16 lanes.
///
/// # Safety
/// The instructions of `S` exist, the job's promises hold (see [`Job`]), and the rows are some of
/// the job's.
#[inline(always)]
pub(super) unsafe fn rows<S: Vectors, E: Element, const NR: usize, const MR: usize>(
    job: &Job<'_>,
    rows: Range<usize>,
    x: usize,
    prefetch: &mut RangePrefetch,
) {
    const { assert!(S::LANES == WIDTH || 2 * S::LANES == WIDTH) };
    let mut row = rows.start;
    while row < rows.end {
        // SAFETY: the caller's promise.
        unsafe {
            if rows.end - row >= NR {
                tile::<S, E, NR, MR>(job, row, x, prefetch);
                row += NR;
            } else {
                tile::<S, E, 1, MR>(job, row, x, prefetch);
                row += 1;
            }
        }
    }
}

/// [`rows`] for `NR` rows from `row` on.
///
/// # Safety
/// As for [`rows`].
#[allow(clippy::needless_range_loop, reason = "constant bounds keep the sums in registers")]
#[inline(always)]
unsafe fn tile<S: Vectors, E: Element, const NR: usize, const MR: usize>(
    job: &Job<'_>,
    row: usize,
    first_x: usize,
    prefetch: &mut RangePrefetch,
) {
    // SAFETY: the caller's promise. Activations are padded with zeros to a multiple of `WIDTH`;
    // the last columns of weights, if they do not fill a step, are copied before they are read.
    unsafe {
        let mut sums = [[[S::splat(0.0); 2]; MR]; NR];
        let first = job.weights.add(row * job.row_bytes);
        let mut weights = Rows { first, stride: job.row_bytes, packed: 0 };
        for chunk in 0..job.cols.div_ceil(COLUMNS) {
            let floats = job.floats.cast::<[f32; BLOCK]>();
            let mut x: [*const [f32; BLOCK]; MR] = job.activation_rows(floats, first_x, chunk);
            let cols = COLUMNS.min(job.cols - chunk * COLUMNS);
            // two steps are a block of activations
            for _ in 0..cols / BLOCK {
                let bytes = NR * BLOCK * E::BYTES;
                match NR {
                    1 => prefetch_next_page(weights.first, bytes),
                    _ => prefetch.advance(bytes),
                }
                for half in 0..2 {
                    step::<S, E, NR, MR>(weights, x, half * WIDTH, &mut sums);
                    weights.first = weights.first.wrapping_add(WIDTH * E::BYTES);
                }
                for x in &mut x {
                    *x = x.wrapping_add(1);
                }
            }
            let mut left = cols % BLOCK;
            let mut within = 0;
            while left > 0 {
                let mut last = [[0_u8; WIDTH * 4]; NR];
                let count = left.min(WIDTH);
                for (n, last) in last.iter_mut().enumerate() {
                    let from = weights.first.add(n * weights.stride);
                    std::ptr::copy_nonoverlapping(from, last.as_mut_ptr(), count * E::BYTES);
                }
                let copy = Rows { first: last.as_ptr().cast(), stride: WIDTH * 4, packed: 0 };
                step::<S, E, NR, MR>(copy, x, within, &mut sums);
                weights.first = weights.first.wrapping_add(count * E::BYTES);
                within += WIDTH;
                left -= count;
            }
        }
        // into memory first: a loop over the sums to keep would have them there all along
        let mut lanes = [[[0.0; WIDTH]; NR]; MR];
        for n in 0..NR {
            for r in 0..MR {
                for v in 0..WIDTH / S::LANES {
                    S::store(sums[n][r][v], lanes[r][n].as_mut_ptr().add(v * S::LANES));
                }
            }
        }
        for (r, lanes) in lanes.iter().enumerate().take(job.batch - first_x) {
            let mut sums = [0.0; NR];
            for (total, lanes) in sums.iter_mut().zip(lanes) {
                *total = sum(lanes);
            }
            job.output(first_x + r, row, &sums);
        }
    }
}

/// Adds the products of `WIDTH` columns, those from `within` on of a block of activations.
///
/// # Safety
/// They are readable in all rows, and the instructions of `S` exist.
#[inline(always)]
unsafe fn step<S: Vectors, E: Element, const NR: usize, const MR: usize>(
    weights: Rows,
    x: [*const [f32; BLOCK]; MR],
    within: usize,
    sums: &mut [[[S::F; 2]; MR]; NR],
) {
    // SAFETY: the caller's promise.
    unsafe {
        #[expect(clippy::needless_range_loop, reason = "it indexes inside of the sums")]
        for v in 0..WIDTH / S::LANES {
            let mut w = [S::splat(0.0); NR];
            for (n, w) in w.iter_mut().enumerate() {
                let at = n * weights.stride + v * S::LANES * E::BYTES;
                *w = E::load::<S>(weights.first.add(at));
            }
            for r in 0..MR {
                let x = S::load_f32(x[r].cast::<f32>().add(within + v * S::LANES).cast());
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
