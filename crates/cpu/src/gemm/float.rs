//! Products of F32, F16 and BF16 matrices with rows of prompts.
//!
//! A lane of a vector is a row of the matrix, and a sum proceeds column by column within a chunk of
//! 256 columns. The sums of the chunks are added in their order. As in the quantized products, the
//! order is the same whatever the batch, the threads and the instruction set.
//!
//! Few activation rows multiply the weights as they are read and transposed in registers. Where
//! there are more, the columns of some rows of weights are packed as vectors of a column each, and
//! multiplied with tiles of activation rows whose sums stay in registers.

use std::ops::Range;

use super::float_kernels::{CHUNK, FloatTile, PITCH};
use super::job::Job;
use super::panel::panel;
use super::prefetch::prefetch_rows;
use super::quantized::JobFn;
use super::scratch;
use super::tile::{self, BLOCK};
use super::vectors::Rows;

/// Activation rows up to which weights are multiplied as they are read.
const MAX_DIRECT: usize = 4;
/// Panels that a chunk of the activations is multiplied with before the next chunk.
const PANELS: usize = 16;
/// Activation rows multiplied with a group of panels before the next rows: a chunk of them and
/// their sums for all panels fit into a second-level cache. A whole number of large tiles.
const STRIP: usize = 288;

/// A kernel that packs some columns of a panel.
pub(super) type PackFn = unsafe fn(Rows, Range<usize>, *mut f32);
/// A kernel that multiplies packed weights with some activation rows.
pub(super) type FloatTileFn = unsafe fn(&Job<'_>, &FloatTile);

/// The kernels of an element type, for an instruction set.
pub(super) struct FloatKernels {
    /// Rows of the matrix in a panel.
    pub(super) lanes: usize,
    /// Bytes of an element.
    pub(super) bytes: usize,
    /// 1, 2 and 4 activation rows.
    pub(super) direct: [JobFn; 3],
    pub(super) pack: PackFn,
    /// Activation rows of a large and of a small tile.
    pub(super) rows: [usize; 2],
    /// These tiles, of one panel and of two.
    pub(super) tiles: [[FloatTileFn; 2]; 2],
}

/// Computes the job's rows.
///
/// # Safety
/// The instructions of the kernels exist, and the job's promises hold (see [`Job`]).
pub(super) unsafe fn run(job: &Job<'_>, kernels: &FloatKernels) {
    // SAFETY: the caller's promise.
    unsafe {
        match job.batch {
            0 => {}
            1 => kernels.direct[0](job),
            2 => kernels.direct[1](job),
            3..=MAX_DIRECT => kernels.direct[2](job),
            _ => many(job, kernels),
        }
    }
}

/// The memory of a thread for [`many`].
struct Workspace {
    /// Packed weights `[2 panels, CHUNK, lanes]`.
    weights: *mut f32,
    /// Sums of the columns so far.
    sums: *mut f32,
    /// Activation rows that do not lie side by side `[rows, PITCH]`.
    gathered: *mut f32,
}

/// The product for many activation rows.
///
/// # Safety
/// As for [`run`].
unsafe fn many(job: &Job<'_>, kernels: &FloatKernels) {
    let most = kernels.rows[0];
    // strips of about the same size, as each packs all weights
    let rows = job.batch.div_ceil(job.batch.div_ceil(STRIP)).next_multiple_of(most);
    let weights = 2 * CHUNK * kernels.lanes;
    let sums = PANELS * kernels.lanes * rows;
    let mut scratch = scratch::alloc((weights + sums + most * PITCH) * size_of::<f32>());
    let start = scratch.as_mut_ptr().cast::<f32>();
    let workspace = Workspace {
        weights: start,
        sums: start.wrapping_add(weights),
        gathered: start.wrapping_add(weights + sums),
    };
    for strip in (0..job.batch).step_by(rows) {
        let strip = strip..job.batch.min(strip + rows);
        let mut row = job.rows.start;
        while row < job.rows.end {
            // SAFETY: the caller's promise; there is room for two panels, for the sums of as many
            // rows and for the rows of a tile, all aligned.
            row = unsafe { group(job, kernels, row, strip.clone(), &workspace) };
        }
    }
    scratch::free(scratch);
}

/// [`many`] for `PANELS` panels from row `row` of the result on, and the activation rows `strip`.
/// Returns the row after the panels.
///
/// # Safety
/// As for [`run`]; the rows exist, and `workspace` is aligned and as large as [`many`] makes it.
unsafe fn group(
    job: &Job<'_>,
    kernels: &FloatKernels,
    row: usize,
    strip: Range<usize>,
    workspace: &Workspace,
) -> usize {
    let lanes = kernels.lanes;
    let [large, small] = kernels.rows;
    let mut end = row;
    for first in (0..job.cols).step_by(CHUNK) {
        let cols = first..job.cols.min(first + CHUNK);
        let mut so_far = workspace.sums;
        end = row;
        let mut panels_done = 0;
        while end < job.rows.end && panels_done < PANELS {
            // SAFETY: the caller's promise; the kernels read the weights that `pack` has written.
            unsafe {
                let mut panels = [panel(job, lanes, end, job.rows.end); 2];
                let mut found = 0;
                while end < job.rows.end && found < 2 {
                    let panel = panel(job, lanes, end, job.rows.end);
                    panels[found] = panel;
                    let bytes = cols.len() * kernels.bytes;
                    let next = panel.rows.first.wrapping_add(cols.end * kernels.bytes);
                    prefetch_rows(Rows { first: next, ..panel.rows }, lanes, bytes);
                    let to = workspace.weights.add(found * CHUNK * lanes);
                    (kernels.pack)(panel.rows, cols.clone(), to);
                    end += panel.count;
                    found += 1;
                }
                panels_done += found;
                let mut tile = FloatTile {
                    panels,
                    cols: cols.clone(),
                    row: strip.start,
                    x: std::ptr::null(),
                    weights: workspace.weights,
                    so_far,
                };
                while tile.row < strip.end {
                    let left = strip.end - tile.row;
                    let is_small = left + small <= large;
                    let rows = if is_small { small } else { large };
                    tile.x = activations(job, tile.row, rows, first, workspace.gathered);
                    kernels.tiles[usize::from(is_small)][found - 1](job, &tile);
                    tile.so_far = tile.so_far.add(found * rows * lanes);
                    tile.row += rows;
                }
                so_far = tile.so_far;
            }
        }
    }
    end
}

/// A chunk from column `first` on of `rows` activation rows from `row` on, `PITCH` apart: where
/// they are, or a copy at `gathered` of picked rows and of rows beyond the last, which repeat it.
///
/// # Safety
/// The job's promises hold, there is such a chunk, and room for the copy.
unsafe fn activations(
    job: &Job<'_>,
    row: usize,
    rows: usize,
    first: usize,
    gathered: *mut f32,
) -> *const f32 {
    let floats = job.floats.cast::<[f32; BLOCK]>();
    let chunk = first / (tile::CHUNK * BLOCK);
    let within = first % (tile::CHUNK * BLOCK);
    // SAFETY: the caller's promise.
    unsafe {
        if job.picked.is_none() && row + rows <= job.batch {
            let [x] = job.activation_rows(floats, row, chunk);
            return x.cast::<f32>().add(within);
        }
        for r in 0..rows {
            let [x] = job.activation_rows(floats, row + r, chunk);
            let x = x.cast::<f32>().add(within);
            std::ptr::copy_nonoverlapping(x, gathered.add(r * PITCH), CHUNK);
        }
    }
    gathered
}
