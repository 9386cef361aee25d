//! Products of quantized matrices: the same loops for every format and instruction set.
//!
//! A lane of a vector is a row of the matrix, and the sum of a row proceeds by blocks of 32
//! columns. The integer products of a block are added exactly, then scaled and added to the sum in
//! f32. This order depends neither on the grouping of rows and activations into panels and tiles
//! nor on the vector's width. So any batching, any number of threads and any instruction set
//! compute the same bits.
//!
//! The loops are compiled once; the [`Kernels`] that they call, for each format, coding and
//! instruction set.

use std::ops::Range;

use super::job::Job;
use super::kernels::TileJob;
use super::panel::{panel, prefetch_job};
use super::prefetch::{RangePrefetch, prefetch_rows};
use super::scratch;
use super::tile::CHUNK;
use super::vectors::Rows;

/// Panels that a chunk of the activations is multiplied with before the next chunk.
const PANELS: usize = 16;
/// Activation rows multiplied with a group of panels before the next rows: a chunk of them and
/// their sums for all panels fit into a second-level cache. A whole number of tiles of any size.
const STRIP: usize = 516;

/// A kernel of all rows of a job.
pub(super) type JobFn = unsafe fn(&Job<'_>);
/// A kernel that unpacks some columns of a panel.
pub(super) type UnpackFn = unsafe fn(Rows, Range<usize>, *mut u8, &mut RangePrefetch);
/// A kernel that multiplies tiles with some activation rows.
pub(super) type TileFn = unsafe fn(&Job<'_>, &TileJob);

/// The kernels of a format, for an instruction set.
pub(super) struct Kernels {
    /// Rows of the matrix in a panel.
    pub(super) lanes: usize,
    /// Bytes of a tile.
    pub(super) tile_bytes: usize,
    /// Bytes of a row's blocks of 512 columns.
    pub(super) chunk_bytes: usize,
    /// One activation row, if there is a kernel that unpacks into registers.
    pub(super) one: Option<JobFn>,
    /// Some activation rows, if there is a kernel that unpacks into registers for them.
    pub(super) in_turn: Option<JobFn>,
    /// The most activation rows that `in_turn` multiplies faster than `few`.
    pub(super) most_in_turn: usize,
    pub(super) unpack: UnpackFn,
    /// Activation rows up to which a panel is multiplied in all of its columns before the next one.
    /// Beyond it, several panels are multiplied with a chunk of the columns of many rows.
    pub(super) most_few: usize,
    /// One panel with some activation rows, and their number: 1 first, and ascending.
    pub(super) few: [(usize, TileFn); 4],
    /// One panel, and as many as a tile of many rows has, with `many_rows` activation rows.
    pub(super) many: [TileFn; 2],
    pub(super) many_panels: usize,
    pub(super) many_rows: usize,
}

/// Computes the job's rows.
///
/// # Safety
/// The instructions of the kernels exist, and the job's promises hold (see [`Job`]).
pub(super) unsafe fn run(job: &Job<'_>, kernels: &Kernels) {
    // SAFETY: the caller's promise.
    unsafe {
        match (job.batch, kernels.one, kernels.in_turn) {
            (0, ..) => {}
            (1, Some(one), _) => one(job),
            (batch, _, Some(in_turn)) if batch <= kernels.most_in_turn => in_turn(job),
            (batch, ..) if batch <= kernels.most_few => few(job, kernels),
            _ => many(job, kernels),
        }
    }
}

/// The product for few activation rows: a chunk of the columns of a panel is unpacked into the
/// first-level cache and multiplied with all of them.
///
/// # Safety
/// As for [`run`].
unsafe fn few(job: &Job<'_>, kernels: &Kernels) {
    let lanes = kernels.lanes;
    let tiles = CHUNK * kernels.tile_bytes;
    // a kernel of all rows or of half of them, and so on
    let largest = kernels.few[3].0;
    let each = job.batch.div_ceil(job.batch.div_ceil(largest));
    let smallest = kernels.few.iter().find(|(rows, _)| *rows >= each);
    let &(rows, kernel) = smallest.unwrap_or(&kernels.few[3]);
    let sums = job.batch.next_multiple_of(rows) * lanes;
    let mut scratch = scratch::alloc(tiles + sums * size_of::<f32>());
    let start = scratch.as_mut_ptr().cast::<u8>();
    let so_far = start.wrapping_add(tiles).cast::<f32>();
    let mut prefetch = prefetch_job(job, lanes);
    let mut row = job.rows.start;
    while row < job.rows.end {
        // SAFETY: the caller's promise; there is room for the tiles of a chunk and for the sums,
        // both aligned.
        unsafe {
            let panel = panel(job, lanes, row, job.rows.end);
            row += panel.count;
            for first in (0..job.row_blocks).step_by(CHUNK) {
                let chunk = first..job.row_blocks.min(first + CHUNK);
                (kernels.unpack)(panel.rows, chunk.clone(), start, &mut prefetch);
                let mut tile_job =
                    TileJob { panels: [panel; 2], chunk, row: 0, tiles: start, so_far };
                while tile_job.row < job.batch {
                    kernel(job, &tile_job);
                    tile_job.row += rows;
                    tile_job.so_far = tile_job.so_far.add(rows * lanes);
                }
            }
        }
    }
    scratch::free(scratch);
}

/// The memory of a thread for [`many`].
struct Workspace {
    /// Unpacked weights `[panels, chunk]`.
    tiles: *mut u8,
    /// Sums of the columns so far.
    sums: *mut f32,
}

/// The product for many activation rows: a chunk of the columns of some panels is unpacked into
/// the first-level cache, and multiplied with tiles of activation rows. Partial sums are kept in
/// memory between chunks.
///
/// # Safety
/// As for [`run`].
unsafe fn many(job: &Job<'_>, kernels: &Kernels) {
    let tiles = kernels.many_panels * CHUNK * kernels.tile_bytes;
    let rows = STRIP.min(job.batch).next_multiple_of(kernels.many_rows);
    let sums = PANELS * rows * kernels.lanes * size_of::<f32>();
    let mut scratch = scratch::alloc(tiles + sums);
    let start = scratch.as_mut_ptr().cast::<u8>();
    let workspace = Workspace { tiles: start, sums: start.wrapping_add(tiles).cast() };
    for strip in (0..job.batch).step_by(STRIP) {
        let strip = strip..job.batch.min(strip + STRIP);
        let mut row = job.rows.start;
        while row < job.rows.end {
            // SAFETY: the caller's promise; there is room for the tiles of as many panels, and
            // for their sums of as many rows, both aligned.
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
    kernels: &Kernels,
    row: usize,
    strip: Range<usize>,
    workspace: &Workspace,
) -> usize {
    let &Kernels { lanes, tile_bytes, many_panels, many_rows, .. } = kernels;
    let mut idle = RangePrefetch::idle();
    let mut end = row;
    for first in (0..job.row_blocks).step_by(CHUNK) {
        let chunk = first..job.row_blocks.min(first + CHUNK);
        let bytes = kernels.chunk_bytes * chunk.len() / CHUNK;
        let mut so_far = workspace.sums;
        end = row;
        let mut panels_done = 0;
        while end < job.rows.end && panels_done < PANELS {
            // SAFETY: the caller's promise; the kernels read the tiles that `unpack` has written.
            unsafe {
                let mut panels = [panel(job, lanes, end, job.rows.end); 2];
                let mut found = 0;
                while end < job.rows.end && found < many_panels {
                    let panel = panel(job, lanes, end, job.rows.end);
                    panels[found] = panel;
                    let to = workspace.tiles.add(found * chunk.len() * tile_bytes);
                    let next = chunk.end * kernels.chunk_bytes / CHUNK;
                    let (next, stretches, bytes) = if job.packed {
                        (next * lanes, 1, bytes * lanes)
                    } else {
                        (next, lanes, bytes)
                    };
                    let first = panel.rows.first.wrapping_add(next);
                    prefetch_rows(Rows { first, ..panel.rows }, stretches, bytes);
                    (kernels.unpack)(panel.rows, chunk.clone(), to, &mut idle);
                    end += panel.count;
                    found += 1;
                }
                panels_done += found;
                let kernel = kernels.many[usize::from(found > 1)];
                let tiles = workspace.tiles.cast_const();
                let mut tile_job = TileJob { panels, chunk: chunk.clone(), row: 0, tiles, so_far };
                for row in strip.clone().step_by(many_rows) {
                    tile_job.row = row;
                    kernel(job, &tile_job);
                    tile_job.so_far = tile_job.so_far.add(many_panels * many_rows * lanes);
                }
                so_far = tile_job.so_far;
            }
        }
    }
    end
}
