//! Products of quantized matrices: the same loops for every format and instruction set.
//!
//! A lane of a vector is a row of the matrix, and the sum of a row proceeds by blocks of 32 columns:
//! the integer products of a block are added exactly, then scaled and added to the sum in f32. That order does not depend on how rows and activations are grouped into panels and
//! tiles, nor on the vector's width, so any batching, any number of threads and any instruction
//! set compute the same bits.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::activations::Block;
use super::job::Job;
use super::prefetch::{RangePrefetch, prefetch_rows};
use super::scratch;
use super::tile::{BLOCK, CHUNK, Format, Tile};
use super::vectors::{Codes, Rows, Vectors};
use crate::memory::prefetch::{Level, prefetch};

/// Activation rows up to which weights are multiplied in registers as they are unpacked. With more
/// rows they are unpacked into memory first, and several tiles of activations multiplied from there.
const MAX_DIRECT: usize = 8;
/// Panels that a chunk of the activations is multiplied with before the next chunk.
const PANELS: usize = 16;
/// Activation rows multiplied with a group of panels before the next rows: a chunk of them and
/// their sums for all panels fit into a second-level cache. A whole number of tiles of any size.
const STRIP: usize = 516;

/// Up to `LANES` consecutive rows of the result, computed together.
#[derive(Clone, Copy)]
struct Panel {
    rows: Rows,
    /// The row of the result in lane 0.
    first: usize,
    /// Lanes to keep: from `skip`, `count` of them.
    skip: usize,
    count: usize,
}

/// The panel that computes rows from `row` on, up to `end`.
///
/// A panel that would reach beyond the matrix starts earlier and skips the lanes before `row`; a
/// matrix of fewer rows than lanes is computed row by row.
///
/// # Safety
/// `row < end`, and `end` is at most the matrix's number of rows.
#[inline(always)]
unsafe fn panel<S: Vectors>(job: &Job<'_>, row: usize, end: usize) -> Panel {
    let stride = job.row_bytes;
    let rows = job.matrix_rows;
    if rows < S::LANES {
        // SAFETY: the row lies inside of the matrix.
        let first = unsafe { job.weights.add(row * stride) };
        return Panel { rows: Rows { first, stride: 0 }, first: row, skip: 0, count: 1 };
    }
    let first = row.min(rows - S::LANES);
    let skip = row - first;
    // SAFETY: as above.
    let start = unsafe { job.weights.add(first * stride) };
    let count = (S::LANES - skip).min(end - row);
    Panel { rows: Rows { first: start, stride }, first, skip, count }
}

/// Computes the job's rows.
///
/// # Safety
/// The instructions of `S` exist, and the job's promises hold (see [`Job`]).
#[inline(always)]
pub(super) unsafe fn run<S: Vectors, F: Format>(job: &Job<'_>) {
    // SAFETY: the caller's promise.
    unsafe {
        match job.batch {
            0 => {}
            1 => direct::<S, F, 1>(job),
            2 => direct::<S, F, 2>(job),
            3..=4 => direct::<S, F, 4>(job),
            5..=MAX_DIRECT => direct::<S, F, MAX_DIRECT>(job),
            // As many sums, in integers and in f32, as fit into registers.
            _ if S::PANELS == 2 => packed::<S, F, 2, 6>(job),
            _ => packed::<S, F, 1, 4>(job),
        }
    }
}

/// Prefetches the weights of the job. A panel is read in all of its rows at once, so the distance is
/// a panel.
#[inline(always)]
fn prefetch_job<S: Vectors>(job: &Job<'_>) -> RangePrefetch {
    let start = job.weights.wrapping_add(job.rows.start * job.row_bytes);
    RangePrefetch::new(start, job.rows.len() * job.row_bytes, S::LANES * job.row_bytes)
}

/// The product for at most `MR` activation rows: each block of weights is unpacked into
/// registers and used at once.
///
/// # Safety
/// As for [`run`].
#[inline(always)]
unsafe fn direct<S: Vectors, F: Format, const MR: usize>(job: &Job<'_>) {
    let mut prefetch = prefetch_job::<S>(job);
    let mut row = job.rows.start;
    while row < job.rows.end {
        // SAFETY: the caller's promise; there are as many blocks in a row of weights as in one
        // of activations, and `unpack` writes the `GROUP` tiles that are then read.
        unsafe {
            let panel = panel::<S>(job, row, job.rows.end);
            row += panel.count;
            let mut sums = [[S::splat(0.0); MR]];
            let mut block = panel.rows;
            let groups = F::DTYPE.block_len() / BLOCK / F::GROUP;
            for chunk in 0..job.row_blocks.div_ceil(CHUNK) {
                let mut x = job.activation_rows::<_, MR>(job.blocks, 0, chunk);
                let blocks = CHUNK.min(job.row_blocks - chunk * CHUNK);
                for _ in 0..blocks / (groups * F::GROUP) {
                    let header = F::header::<S>(block);
                    for group in 0..groups {
                        prefetch.advance(S::LANES * F::DTYPE.block_bytes() / groups);
                        let mut tiles = MaybeUninit::<[Tile<S>; 4]>::uninit();
                        let tiles = tiles.as_mut_ptr().cast::<Tile<S>>();
                        F::unpack::<S>(block, &header, group, tiles);
                        for i in 0..F::GROUP {
                            multiply::<S, F, 1, MR>([tiles.add(i)], x, &mut sums);
                            for x in &mut x {
                                *x = x.add(1);
                            }
                        }
                    }
                    block.first = block.first.wrapping_add(F::DTYPE.block_bytes());
                }
            }
            for (i, sums) in sums[0].iter().enumerate().take(job.batch) {
                store::<S>(job, panel, i, *sums);
            }
        }
    }
}

/// The memory of a thread for [`packed`], in vectors and tiles of `S`.
struct Workspace<S: Vectors> {
    /// Unpacked weights `[NR panels, chunk]`.
    tiles: *mut Tile<S>,
    /// Sums of the columns so far.
    sums: *mut S::F,
}

/// The product for many activation rows: a chunk of the columns of `NR` panels is unpacked into
/// the first-level cache, and multiplied with tiles of `MR` activation rows. Partial sums are kept
/// in memory between chunks.
///
/// # Safety
/// As for [`run`].
#[inline(always)]
unsafe fn packed<S: Vectors, F: Format, const NR: usize, const MR: usize>(job: &Job<'_>) {
    const {
        assert!((CHUNK * BLOCK).is_multiple_of(F::DTYPE.block_len()));
        assert!(PANELS.is_multiple_of(NR) && STRIP.is_multiple_of(MR));
    }
    let tiles = NR * CHUNK * size_of::<Tile<S>>();
    let sums = PANELS * STRIP.min(job.batch).next_multiple_of(MR) * size_of::<S::F>();
    let mut scratch = scratch::alloc(tiles + sums);
    let start = scratch.as_mut_ptr().cast::<u8>();
    let workspace = Workspace { tiles: start.cast(), sums: start.wrapping_add(tiles).cast() };
    for strip in (0..job.batch).step_by(STRIP) {
        let strip = strip..job.batch.min(strip + STRIP);
        let mut row = job.rows.start;
        while row < job.rows.end {
            // SAFETY: the caller's promise; there is room for the tiles of as many panels, and
            // for their sums of as many rows, both aligned.
            row = unsafe { group::<S, F, NR, MR>(job, row, strip.clone(), &workspace) };
        }
    }
    scratch::free(scratch);
}

/// [`packed`] for `PANELS` panels from row `row` of the result on, and the activation rows `strip`. Returns the row after the panels.
///
/// # Safety
/// As for [`run`]; the rows exist, and `workspace` is aligned and as large as [`packed`] makes it.
#[inline(always)]
unsafe fn group<S: Vectors, F: Format, const NR: usize, const MR: usize>(
    job: &Job<'_>,
    row: usize,
    strip: Range<usize>,
    workspace: &Workspace<S>,
) -> usize {
    let mut end = row;
    for first in (0..job.row_blocks).step_by(CHUNK) {
        let chunk = first..job.row_blocks.min(first + CHUNK);
        let mut sums = workspace.sums;
        end = row;
        let mut panels_done = 0;
        while end < job.rows.end && panels_done < PANELS {
            // SAFETY: the caller's promise; `through` reads the tiles that `unpack` has written.
            unsafe {
                let mut panels = [panel::<S>(job, end, job.rows.end); NR];
                let mut found = 0;
                while end < job.rows.end && found < NR {
                    panels[found] = panel::<S>(job, end, job.rows.end);
                    let to = workspace.tiles.add(found * chunk.len());
                    unpack::<S, F>(panels[found].rows, chunk.clone(), to);
                    end += panels[found].count;
                    found += 1;
                }
                panels_done += found;
                for x in strip.clone().step_by(MR) {
                    if found == NR {
                        through::<S, F, NR, MR>(
                            job,
                            panels,
                            chunk.clone(),
                            x,
                            workspace.tiles,
                            sums,
                        );
                    } else {
                        let panels = [panels[0]];
                        through::<S, F, 1, MR>(
                            job,
                            panels,
                            chunk.clone(),
                            x,
                            workspace.tiles,
                            sums,
                        );
                    }
                    sums = sums.add(NR * MR);
                }
            }
        }
    }
    end
}

/// Unpacks the blocks `chunk` of 32 columns, and prefetches as many after them.
///
/// # Safety
/// The rows are whole, the instructions of `S` exist, and there is room for the tiles at `to`.
#[inline(always)]
unsafe fn unpack<S: Vectors, F: Format>(rows: Rows, chunk: Range<usize>, mut to: *mut Tile<S>) {
    let tiles = F::DTYPE.block_len() / BLOCK;
    let bytes = chunk.len() / tiles * F::DTYPE.block_bytes();
    // SAFETY: the caller's promise.
    unsafe {
        let mut block = rows.at(chunk.start / tiles * F::DTYPE.block_bytes());
        prefetch_rows(Rows { first: block.first.wrapping_add(bytes), ..block }, S::LANES, bytes);
        for _ in 0..chunk.len() / tiles {
            let header = F::header::<S>(block);
            for group in 0..tiles / F::GROUP {
                F::unpack::<S>(block, &header, group, to);
                to = to.add(F::GROUP);
            }
            block.first = block.first.wrapping_add(F::DTYPE.block_bytes());
        }
    }
}

/// Multiplies `MR` activation rows from `row` on with a chunk of neighbouring panels.
///
/// # Safety
/// As for [`run`]; the panels' tiles are at `tiles`, and `so_far` has room for as many sums and
/// holds those of the blocks before the chunk, if any.
#[inline(always)]
unsafe fn through<S: Vectors, F: Format, const NR: usize, const MR: usize>(
    job: &Job<'_>,
    panels: [Panel; NR],
    chunk: Range<usize>,
    row: usize,
    tiles: *const Tile<S>,
    so_far: *mut S::F,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if chunk.end == job.row_blocks {
            for r in 0..MR {
                for panel in panels {
                    prefetch(job.address(row + r, panel.first), Level::FirstToWrite);
                }
            }
        }
        let mut sums = [[S::splat(0.0); MR]; NR];
        // one by one, as an array would be copied by a call
        if chunk.start > 0 {
            for (i, sum) in sums.as_flattened_mut().iter_mut().enumerate() {
                *sum = *so_far.add(i);
            }
        }
        let mut x = job.activation_rows::<_, MR>(job.blocks, row, chunk.start / CHUNK);
        let mut at = [tiles; NR];
        for (i, at) in at.iter_mut().enumerate() {
            *at = at.add(i * chunk.len());
        }
        for _ in chunk.clone() {
            for x in x {
                prefetch(x.wrapping_add(MR * CHUNK).cast(), Level::First);
            }
            multiply::<S, F, NR, MR>(at, x, &mut sums);
            for at in &mut at {
                *at = at.add(1);
            }
            for x in &mut x {
                *x = x.add(1);
            }
        }
        if chunk.end < job.row_blocks {
            for (i, sum) in sums.as_flattened().iter().enumerate() {
                *so_far.add(i) = *sum;
            }
            return;
        }
        for (panel, sums) in panels.iter().zip(&sums) {
            for (i, sums) in sums.iter().enumerate().take(job.batch - row) {
                store::<S>(job, *panel, row + i, *sums);
            }
        }
    }
}

/// Adds the products of one tile of each of `NR` panels with `MR` blocks of activations.
///
/// # Safety
/// As for [`run`]; the tiles are unpacked.
#[inline(always)]
unsafe fn multiply<S: Vectors, F: Format, const NR: usize, const MR: usize>(
    tiles: [*const Tile<S>; NR],
    x: [*const Block; MR],
    sums: &mut [[S::F; MR]; NR],
) {
    // SAFETY: the caller's promise.
    unsafe {
        if F::HALVES {
            let first = dot::<S, F, 4, NR, MR>(tiles, x, Some(0));
            let second = dot::<S, F, 4, NR, MR>(tiles, x, Some(1));
            for n in 0..NR {
                let tile = tiles[n];
                for r in 0..MR {
                    let x = x[r];
                    let product = S::mul(S::to_f32(first[n][r]), (*tile).scale[0]);
                    let product = S::fma(S::to_f32(second[n][r]), (*tile).scale[1], product);
                    let sum = &mut sums[n][r];
                    *sum = S::fma(product, S::splat((*x).scale), *sum);
                    if F::MIN {
                        *sum = S::fma((*tile).min[0], S::splat((*x).half_sums[0]), *sum);
                        *sum = S::fma((*tile).min[1], S::splat((*x).half_sums[1]), *sum);
                    }
                }
            }
        } else {
            let integers = dot::<S, F, 8, NR, MR>(tiles, x, None);
            for n in 0..NR {
                let tile = tiles[n];
                for r in 0..MR {
                    let x = x[r];
                    let product = S::mul(S::to_f32(integers[n][r]), (*tile).scale[0]);
                    let sum = &mut sums[n][r];
                    *sum = S::fma(product, S::splat((*x).scale), *sum);
                    if F::MIN {
                        *sum = S::fma((*tile).min[0], S::splat((*x).sum), *sum);
                    }
                }
            }
        }
    }
}

/// The integer products of a half (or all) of the columns of a tile, offset included.
///
/// # Safety
/// As for [`multiply`]; `N` vectors of codes make up the half or the whole.
#[inline(always)]
unsafe fn dot<S: Vectors, F: Format, const N: usize, const NR: usize, const MR: usize>(
    tiles: [*const Tile<S>; NR],
    x: [*const Block; MR],
    half: Option<usize>,
) -> [[S::I; MR]; NR] {
    // Where the instructions want unsigned bytes, signed ones come with an offset of 128.
    let zero = if matches!(F::CODES, Codes::I8) { S::I8_ZERO } else { F::ZERO };
    let skip = half.unwrap_or(0) * N;
    // SAFETY: the caller's promise.
    unsafe {
        let mut weights = [std::ptr::null(); NR];
        for (weights, tile) in weights.iter_mut().zip(tiles) {
            *weights = (&raw const (*tile).codes).cast::<S::I>().add(skip);
        }
        let mut codes = [std::ptr::null(); MR];
        let mut start = [S::splat_i(0); MR];
        for r in 0..MR {
            codes[r] = (&raw const (*x[r]).codes).cast::<i8>().add(4 * skip);
            if let Some(zero) = zero {
                let minus_sum = match half {
                    None => (*x[r]).minus_sum,
                    Some(half) => (*x[r]).minus_half_sums[half],
                };
                start[r] = S::shl(S::splat_i(minus_sum), zero);
            }
        }
        S::dot::<N, NR, MR>(F::CODES, weights, codes, start)
    }
}

/// Writes the results of a panel for activation row `row`.
///
/// # Safety
/// The job's promises hold.
#[inline(always)]
unsafe fn store<S: Vectors>(job: &Job<'_>, panel: Panel, row: usize, mut sums: S::F) {
    // SAFETY: a vector has at most 16 lanes; no other thread writes this job's results.
    unsafe {
        if panel.count < S::LANES {
            let mut lanes = [0.0; 16];
            S::store(sums, lanes.as_mut_ptr());
            job.output(row, panel.first + panel.skip, &lanes[panel.skip..][..panel.count]);
            return;
        }
        let start = job.place(row, panel.first);
        let to = job.output.values.slice_mut(start..start + S::LANES).as_mut_ptr();
        // the sum of two values is their fused product with 1
        if let Some(bias) = job.output.bias {
            let bias = bias[panel.first..][..S::LANES].as_ptr();
            sums = S::fma(sums, S::splat(1.0), S::load_f32(bias.cast()));
        }
        if job.output.accumulate {
            sums = S::fma(sums, S::splat(1.0), S::load_f32(to.cast_const().cast()));
        }
        S::store(sums, to);
    }
}
