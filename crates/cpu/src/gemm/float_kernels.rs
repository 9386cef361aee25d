//! The kernels of products in f32: packing, and the products of vectors of columns.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::activations::ActivationKind;
use super::job::Job;
use super::kernels::store;
use super::panel::{Panel, panel, prefetch_job};
use super::tile::{self, BLOCK};
use super::vectors::{Rows, Vectors};
use crate::memory::prefetch::{Level, prefetch};

/// Columns multiplied at a time: half a chunk of the activations. As vectors of a column they and
/// a tile of activations fit into a first-level cache.
pub(super) const CHUNK: usize = 256;
/// Columns to whose multiples packed weights are padded.
pub(super) const STEP: usize = 16;
/// Elements from one activation row to the next.
pub(super) const PITCH: usize = ActivationKind::F32.pitch() * BLOCK;
/// Columns of a chunk of the activations.
const COLUMNS: usize = tile::CHUNK * BLOCK;
/// Bytes of a row that are transposed at a time: a cache line, as the lines of rows whose distance
/// is a power of two evict each other.
const LINE: usize = 64;

/// An element type.
pub(super) trait Element {
    const BYTES: usize;

    /// Loads `S::LANES` neighbouring elements.
    ///
    /// # Safety
    /// They are readable, and the instructions of `S` exist.
    unsafe fn load<S: Vectors>(from: *const u8) -> S::F;

    /// Writes `LINE` bytes of each row as a vector for each column.
    ///
    /// # Safety
    /// They are readable, there is room at `to`, and the instructions of `S` exist.
    unsafe fn columns<S: Vectors>(from: Rows, to: *mut f32);
}

/// f32.
pub(super) struct F32;

impl Element for F32 {
    const BYTES: usize = 4;

    #[inline(always)]
    unsafe fn load<S: Vectors>(from: *const u8) -> S::F {
        // SAFETY: the caller's promise.
        unsafe { S::load_f32(from) }
    }

    #[inline(always)]
    unsafe fn columns<S: Vectors>(from: Rows, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe {
            for (i, column) in S::load64(from).into_iter().enumerate() {
                S::store(S::f32_of_bits(column), to.add(i * S::LANES));
            }
        }
    }
}

/// IEEE 754 binary16.
pub(super) struct F16;

impl Element for F16 {
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn load<S: Vectors>(from: *const u8) -> S::F {
        // SAFETY: the caller's promise.
        unsafe { S::load_f16(from) }
    }

    #[inline(always)]
    unsafe fn columns<S: Vectors>(from: Rows, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe {
            for (i, pair) in S::load64(from).into_iter().enumerate() {
                let [first, second] = S::f16_pairs(pair);
                S::store(first, to.add(2 * i * S::LANES));
                S::store(second, to.add((2 * i + 1) * S::LANES));
            }
        }
    }
}

/// The upper halves of f32.
pub(super) struct BF16;

impl Element for BF16 {
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn load<S: Vectors>(from: *const u8) -> S::F {
        // SAFETY: the caller's promise.
        unsafe { S::load_bf16(from) }
    }

    #[inline(always)]
    unsafe fn columns<S: Vectors>(from: Rows, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe {
            for (i, pair) in S::load64(from).into_iter().enumerate() {
                let second = S::and(pair, S::splat_i(-0x1_0000));
                S::store(S::f32_of_bits(S::shl(pair, 16)), to.add(2 * i * S::LANES));
                S::store(S::f32_of_bits(second), to.add((2 * i + 1) * S::LANES));
            }
        }
    }
}

/// The last columns of each row, padded with zeros to a `LINE`.
///
/// # Safety
/// The first `count` elements of each row are readable; `to` has room for the lanes of `S`.
#[inline(always)]
unsafe fn padded<S: Vectors, E: Element>(
    from: Rows,
    count: usize,
    to: &mut [[u8; LINE]; 16],
) -> Rows {
    for (lane, to) in to.iter_mut().enumerate().take(S::LANES) {
        // SAFETY: the caller's promise.
        unsafe {
            let from = from.first.add(lane * from.stride);
            std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), count * E::BYTES);
        }
    }
    Rows { first: to.as_ptr().cast(), stride: LINE, packed: 0 }
}

/// The product for at most `MR` activation rows: `NR` panels are multiplied as they are read.
/// Several panels, as the sums of one would wait for each other.
///
/// # Safety
/// The instructions of `S` exist, and the job's promises hold (see [`Job`]).
#[inline(always)]
pub(super) unsafe fn direct<S: Vectors, E: Element, const NR: usize, const MR: usize>(
    job: &Job<'_>,
) {
    let mut prefetch = prefetch_job(job, NR * S::LANES);
    let mut row = job.rows.start;
    while row < job.rows.end {
        // SAFETY: the caller's promise; the rows exist.
        unsafe {
            let first = panel(job, S::LANES, row, job.rows.end);
            if row + NR * S::LANES <= job.rows.end {
                let mut panels = [first; NR];
                for (n, at) in panels.iter_mut().enumerate().skip(1) {
                    *at = panel(job, S::LANES, row + n * S::LANES, job.rows.end);
                }
                multiply::<S, E, NR, MR>(job, panels, |bytes| prefetch.advance(bytes));
                row += NR * S::LANES;
            } else {
                multiply::<S, E, 1, MR>(job, [first], |bytes| prefetch.advance(bytes));
                row += first.count;
            }
        }
    }
}

/// The product of `NR` panels with at most `MR` activation rows. Calls `advance` with the bytes of
/// weights that it reads next.
///
/// # Safety
/// As for [`direct`].
#[expect(clippy::needless_range_loop, reason = "it indexes inside of the sums")]
#[inline(always)]
unsafe fn multiply<S: Vectors, E: Element, const NR: usize, const MR: usize>(
    job: &Job<'_>,
    panels: [Panel; NR],
    mut advance: impl FnMut(usize),
) {
    // SAFETY: the caller's promise; activations are padded with zeros to a multiple of 32, and the
    // last columns of weights are copied before they are read.
    unsafe {
        let one = S::splat(1.0);
        let mut totals = [[S::splat(0.0); MR]; NR];
        for first in (0..job.cols).step_by(CHUNK) {
            let cols = CHUNK.min(job.cols - first);
            let floats = job.floats.cast::<[f32; BLOCK]>();
            let x: [*const [f32; BLOCK]; MR] = job.activation_rows(floats, 0, first / COLUMNS);
            let mut sums = [[S::splat(0.0); MR]; NR];
            let line = LINE / E::BYTES;
            for col in (0..cols).step_by(line) {
                advance(NR * S::LANES * LINE);
                let mut columns = MaybeUninit::<[[S::F; 32]; NR]>::uninit();
                let columns = columns.as_mut_ptr().cast::<[S::F; 32]>();
                for (n, panel) in panels.iter().enumerate() {
                    let rows = Rows { packed: 0, ..panel.rows };
                    let mut from = rows.at((first + col) * E::BYTES);
                    let mut last = [[0; LINE]; 16];
                    if cols - col < line {
                        from = padded::<S, E>(from, cols - col, &mut last);
                    }
                    E::columns::<S>(from, columns.add(n).cast());
                }
                // x is padded to 32 columns, the weights to a line
                for k in 0..line {
                    for r in 0..MR {
                        let x = S::splat(*x[r].cast::<f32>().add(first % COLUMNS + col + k));
                        for n in 0..NR {
                            let column = *columns.add(n).cast::<S::F>().add(k);
                            sums[n][r] = S::fma(column, x, sums[n][r]);
                        }
                    }
                }
            }
            for n in 0..NR {
                for r in 0..MR {
                    totals[n][r] = S::fma(sums[n][r], one, totals[n][r]);
                }
            }
        }
        for (panel, totals) in panels.iter().zip(&totals) {
            for (r, total) in totals.iter().enumerate().take(job.batch) {
                store::<S>(job, *panel, r, *total);
            }
        }
    }
}

/// Packs columns of a panel as vectors of a column each, padded with zeros to a line.
///
/// # Safety
/// The rows and columns exist, the instructions of `S` too, and there is room at `to`.
#[inline(always)]
pub(super) unsafe fn pack<S: Vectors, E: Element>(rows: Rows, cols: Range<usize>, to: *mut f32) {
    let len = cols.len();
    let rows = Rows { packed: 0, ..rows };
    // SAFETY: the caller's promise; the last columns are copied before they are read.
    unsafe {
        let line = LINE / E::BYTES;
        for col in (0..len).step_by(line) {
            let mut from = rows.at((cols.start + col) * E::BYTES);
            let mut last = [[0; LINE]; 16];
            if len < col + line {
                from = padded::<S, E>(from, len - col, &mut last);
            }
            E::columns::<S>(from, to.add(col * S::LANES));
        }
    }
}

/// The panels and activation rows that one call of a kernel multiplies, and their memory.
pub(super) struct FloatTile {
    /// The panels; the kernel uses as many as it is made for.
    pub(super) panels: [Panel; 2],
    /// The columns.
    pub(super) cols: Range<usize>,
    /// The first activation row.
    pub(super) row: usize,
    /// The columns of the activation rows, `PITCH` apart.
    pub(super) x: *const f32,
    /// The panels' packed columns `[panels, CHUNK, lanes]`.
    pub(super) weights: *const f32,
    /// The sums of the columns before these, if any, and afterwards of those including them.
    pub(super) so_far: *mut f32,
}

/// Multiplies `MR` activation rows with columns of `NR` packed panels.
///
/// # Safety
/// As for [`direct`]; the weights have been packed, and there is room for the sums.
#[expect(clippy::needless_range_loop, reason = "it indexes inside of the sums")]
#[inline(always)]
pub(super) unsafe fn through<S: Vectors, const NR: usize, const MR: usize>(
    job: &Job<'_>,
    tile: &FloatTile,
) {
    let FloatTile { panels, cols, row, x, weights, so_far } = tile;
    let (row, mut x, mut weights, so_far) = (*row, *x, *weights, so_far.cast::<S::F>());
    // SAFETY: the caller's promise; both sides are padded to a multiple of `STEP`.
    unsafe {
        if cols.end == job.cols {
            for r in 0..MR {
                for panel in &panels[..NR] {
                    prefetch(job.address(row + r, panel.first), Level::FirstToWrite);
                }
            }
        }
        let mut sums = [[S::splat(0.0); MR]; NR];
        for _ in 0..cols.len().div_ceil(STEP) {
            for r in 0..MR {
                prefetch(x.wrapping_add((MR + r) * PITCH).cast(), Level::First);
            }
            for k in 0..STEP {
                let mut w = [S::splat(0.0); NR];
                for (n, w) in w.iter_mut().enumerate() {
                    *w = S::load_f32(weights.add((n * CHUNK + k) * S::LANES).cast());
                }
                for r in 0..MR {
                    let x = S::splat(*x.add(r * PITCH + k));
                    for n in 0..NR {
                        sums[n][r] = S::fma(w[n], x, sums[n][r]);
                    }
                }
            }
            x = x.wrapping_add(STEP);
            weights = weights.wrapping_add(STEP * S::LANES);
        }
        let one = S::splat(1.0);
        let is_first = cols.start == 0;
        for (i, sum) in sums.as_flattened().iter().enumerate() {
            let before = if is_first { S::splat(0.0) } else { *so_far.add(i) };
            *so_far.add(i) = S::fma(*sum, one, before);
        }
        // from memory, as a loop over the sums would keep them there all along
        if cols.end == job.cols {
            for (n, panel) in panels[..NR].iter().enumerate() {
                for r in 0..MR.min(job.batch - row) {
                    store::<S>(job, *panel, row + r, *so_far.add(n * MR + r));
                }
            }
        }
    }
}
