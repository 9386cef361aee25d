//! The kernels of products in f32: packing, and the products of vectors of columns.

use std::ops::Range;

use super::float::{CHUNK, STEP};
use super::job::Job;
use super::kernels::store;
use super::panel::{Panel, panel, prefetch_job};
use super::tile::{self, BLOCK};
use super::vectors::{Rows, Vectors};
use crate::memory::prefetch::{Level, prefetch};

/// Elements from one activation row to the next.
pub(super) const PITCH: usize = tile::CHUNK * BLOCK;
/// Columns that are transposed at a time.
const COLUMNS: usize = 8;

/// An element type.
pub(super) trait Element {
    const BYTES: usize;

    /// Loads eight neighbouring elements of each row: a vector for each column.
    ///
    /// # Safety
    /// They are readable, and the instructions of `S` exist.
    unsafe fn columns<S: Vectors>(from: Rows) -> [S::F; COLUMNS];
}

/// f32.
pub(super) struct F32;

impl Element for F32 {
    const BYTES: usize = 4;

    #[inline(always)]
    unsafe fn columns<S: Vectors>(from: Rows) -> [S::F; COLUMNS] {
        // SAFETY: the caller's promise.
        unsafe {
            let (low, high) = (S::load16(from), S::load16(from.at(16)));
            let mut columns = [S::splat(0.0); COLUMNS];
            for i in 0..4 {
                columns[i] = S::f32_of_bits(low[i]);
                columns[i + 4] = S::f32_of_bits(high[i]);
            }
            columns
        }
    }
}

/// IEEE 754 binary16.
pub(super) struct F16;

impl Element for F16 {
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn columns<S: Vectors>(from: Rows) -> [S::F; COLUMNS] {
        // SAFETY: the caller's promise.
        unsafe {
            let pairs = S::load16(from);
            let mut columns = [S::splat(0.0); COLUMNS];
            for i in 0..4 {
                [columns[2 * i], columns[2 * i + 1]] = S::f16_pairs(pairs[i]);
            }
            columns
        }
    }
}

/// The upper halves of f32.
pub(super) struct BF16;

impl Element for BF16 {
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn columns<S: Vectors>(from: Rows) -> [S::F; COLUMNS] {
        // SAFETY: the caller's promise.
        unsafe {
            let pairs = S::load16(from);
            let mut columns = [S::splat(0.0); COLUMNS];
            for i in 0..4 {
                let high = S::and(pairs[i], S::splat_i(-0x1_0000));
                columns[2 * i] = S::f32_of_bits(S::shl(pairs[i], 16));
                columns[2 * i + 1] = S::f32_of_bits(high);
            }
            columns
        }
    }
}

/// The last columns of each row, padded with zeros to [`COLUMNS`].
///
/// # Safety
/// The first `count` elements of each row are readable; `to` has room for the lanes of `S`.
#[inline(always)]
unsafe fn padded<S: Vectors, E: Element>(
    from: Rows,
    count: usize,
    to: &mut [[u8; COLUMNS * 4]; 16],
) -> Rows {
    for (lane, to) in to.iter_mut().enumerate().take(S::LANES) {
        // SAFETY: the caller's promise.
        unsafe {
            let from = from.first.add(lane * from.stride);
            std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), count * E::BYTES);
        }
    }
    Rows { first: to.as_ptr().cast(), stride: COLUMNS * 4, packed: false }
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
            let x: [*const [f32; BLOCK]; MR] = job.activation_rows(floats, 0, first / PITCH);
            let mut sums = [[S::splat(0.0); MR]; NR];
            for col in (0..cols).step_by(COLUMNS) {
                advance(NR * S::LANES * COLUMNS * E::BYTES);
                for n in 0..NR {
                    let rows = Rows { packed: false, ..panels[n].rows };
                    let mut from = rows.at((first + col) * E::BYTES);
                    let mut last = [[0; COLUMNS * 4]; 16];
                    if cols - col < COLUMNS {
                        from = padded::<S, E>(from, cols - col, &mut last);
                    }
                    let weights = E::columns::<S>(from);
                    for (k, &weights) in weights.iter().enumerate() {
                        for r in 0..MR {
                            let x = *x[r].cast::<f32>().add(first % PITCH + col + k);
                            sums[n][r] = S::fma(weights, S::splat(x), sums[n][r]);
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

/// Packs columns of a panel as vectors of a column each, padded with zeros to a multiple of `STEP`.
///
/// # Safety
/// The rows and columns exist, the instructions of `S` too, and there is room at `to`.
#[inline(always)]
pub(super) unsafe fn pack<S: Vectors, E: Element>(rows: Rows, cols: Range<usize>, to: *mut f32) {
    let len = cols.len();
    let rows = Rows { packed: false, ..rows };
    // SAFETY: the caller's promise; the last columns are copied before they are read.
    unsafe {
        for col in (0..len.next_multiple_of(STEP)).step_by(COLUMNS) {
            let mut from = rows.at((cols.start + col.min(len)) * E::BYTES);
            let mut last = [[0; COLUMNS * 4]; 16];
            if len < col + COLUMNS {
                from = padded::<S, E>(from, len.saturating_sub(col), &mut last);
            }
            for (k, column) in E::columns::<S>(from).into_iter().enumerate() {
                S::store(column, to.add((col + k) * S::LANES));
            }
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
        for n in 0..NR {
            for r in 0..MR {
                let place = so_far.add(n * MR + r);
                let before = if cols.start > 0 { *place } else { S::splat(0.0) };
                let total = S::fma(sums[n][r], one, before);
                if cols.end < job.cols {
                    *place = total;
                } else if row + r < job.batch {
                    store::<S>(job, panels[n], row + r, total);
                }
            }
        }
    }
}
