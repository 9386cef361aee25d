//! Products of quantized matrices: the same loops for every format and instruction set.
//!
//! A lane of a vector is a row of the matrix, and the sum of a row goes block by block of 32
//! columns: the integer products of a block are added up exactly, then the block joins the sum
//! in f32. That order does not depend on how rows and activations are grouped into panels and
//! tiles, nor on the vector's width, so any batching, any number of threads and any instruction
//! set give the same bits.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::Job;
use super::activations::Block;
use super::prefetch::{Prefetch, fetch_near, fetch_rows, fetch_to_write};
use super::scratch;
use super::simd::{Codes, Simd};
use super::tile::{BLOCK, CHUNK, Format, Rows, Tile};

/// Activation rows up to which weights are multiplied as they are unpacked. With more it pays
/// to unpack them into memory first, from where several tiles of activations are multiplied.
const MAX_DIRECT: usize = 8;
/// Panels that a chunk of the activations is taken through before the next chunk.
const PANELS: usize = 16;
/// Activation rows taken through a group of panels before the next rows: a chunk of them and
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
/// A panel that would reach beyond the matrix starts earlier and leaves out what is not asked
/// for; a matrix of fewer rows than lanes goes row by row.
///
/// # Safety
/// `row < end`, and `end` is at most the matrix's number of rows.
#[inline(always)]
unsafe fn panel<S: Simd>(job: &Job<'_>, row: usize, end: usize) -> Panel {
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
pub(super) unsafe fn run<S: Simd, F: Format>(job: &Job<'_>) {
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

/// Fetches the weights of the job. A panel is read in all of its rows at once, so all of it must
/// be there in time.
#[inline(always)]
fn prefetch<S: Simd>(job: &Job<'_>) -> Prefetch {
    let start = job.weights.wrapping_add(job.rows.start * job.row_bytes);
    Prefetch::new(start, job.rows.len() * job.row_bytes, S::LANES * job.row_bytes)
}

/// Chunk `chunk` of `MR` activation rows from `row` on. Beyond the last row it repeats that one;
/// its results are not kept.
///
/// # Safety
/// The job's promises hold, and there is such a chunk.
#[inline(always)]
unsafe fn activation_rows<const MR: usize>(
    job: &Job<'_>,
    row: usize,
    chunk: usize,
) -> [*const Block; MR] {
    let mut rows = [job.blocks; MR];
    for (i, x) in rows.iter_mut().enumerate() {
        let row = (row + i).min(job.batch - 1);
        // SAFETY: the row is one of the batch.
        *x = unsafe { x.add(chunk * job.chunk_stride + row * CHUNK) };
    }
    rows
}

/// The product for at most `MR` activation rows: each block of weights is unpacked into
/// registers and used at once.
///
/// # Safety
/// As for [`run`].
#[inline(always)]
unsafe fn direct<S: Simd, F: Format, const MR: usize>(job: &Job<'_>) {
    let mut prefetch = prefetch::<S>(job);
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
                let mut x = activation_rows::<MR>(job, 0, chunk);
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

/// Memory of a thread for [`packed`], in vectors and tiles of `S`.
struct Room<S: Simd> {
    /// Unpacked weights of `NR` panels, a chunk of each behind that of the last.
    tiles: *mut Tile<S>,
    /// Sums of the columns so far.
    sums: *mut S::F,
}

/// The product for many activation rows: a chunk of the columns of `NR` panels is unpacked into
/// the first-level cache, and tiles of `MR` activation rows are taken through it. Sums wait in
/// memory until the next chunk goes on with them.
///
/// # Safety
/// As for [`run`].
#[inline(always)]
unsafe fn packed<S: Simd, F: Format, const NR: usize, const MR: usize>(job: &Job<'_>) {
    const {
        assert!((CHUNK * BLOCK).is_multiple_of(F::DTYPE.block_len()));
        assert!(PANELS.is_multiple_of(NR) && STRIP.is_multiple_of(MR));
    }
    let tiles = NR * CHUNK * size_of::<Tile<S>>();
    let sums = PANELS * STRIP.min(job.batch).next_multiple_of(MR) * size_of::<S::F>();
    let mut scratch = scratch::take(tiles + sums);
    let start = scratch.as_mut_ptr().cast::<u8>();
    let room = Room { tiles: start.cast(), sums: start.wrapping_add(tiles).cast() };
    for strip in (0..job.batch).step_by(STRIP) {
        let strip = strip..job.batch.min(strip + STRIP);
        let mut row = job.rows.start;
        while row < job.rows.end {
            // SAFETY: the caller's promise; there is room for the tiles of as many panels, and
            // for their sums of as many rows, both aligned.
            row = unsafe { group::<S, F, NR, MR>(job, row, strip.clone(), &room) };
        }
    }
    scratch::give_back(scratch);
}

/// The part of [`packed`] for `PANELS` panels, from row `row` of the result on, and the
/// activation rows `strip`. Returns the row behind the panels.
///
/// # Safety
/// As for [`run`]; the rows exist, and `room` is aligned and as large as [`packed`] makes it.
#[inline(always)]
unsafe fn group<S: Simd, F: Format, const NR: usize, const MR: usize>(
    job: &Job<'_>,
    row: usize,
    strip: Range<usize>,
    room: &Room<S>,
) -> usize {
    let mut end = row;
    for first in (0..job.row_blocks).step_by(CHUNK) {
        let chunk = first..job.row_blocks.min(first + CHUNK);
        let mut sums = room.sums;
        end = row;
        let mut taken = 0;
        while end < job.rows.end && taken < PANELS {
            // SAFETY: the caller's promise; `through` reads the tiles that `unpack` has written.
            unsafe {
                let mut panels = [panel::<S>(job, end, job.rows.end); NR];
                let mut found = 0;
                while end < job.rows.end && found < NR {
                    panels[found] = panel::<S>(job, end, job.rows.end);
                    let to = room.tiles.add(found * chunk.len());
                    unpack::<S, F>(panels[found].rows, chunk.clone(), to);
                    end += panels[found].count;
                    found += 1;
                }
                taken += found;
                for x in strip.clone().step_by(MR) {
                    if found == NR {
                        through::<S, F, NR, MR>(job, panels, chunk.clone(), x, room.tiles, sums);
                    } else {
                        let panels = [panels[0]];
                        through::<S, F, 1, MR>(job, panels, chunk.clone(), x, room.tiles, sums);
                    }
                    sums = sums.add(NR * MR);
                }
            }
        }
    }
    end
}

/// Unpacks the blocks `chunk` of 32 columns, and asks for as many behind them.
///
/// # Safety
/// The rows are whole, the instructions of `S` exist, and there is room for the tiles at `to`.
#[inline(always)]
unsafe fn unpack<S: Simd, F: Format>(rows: Rows, chunk: Range<usize>, mut to: *mut Tile<S>) {
    let tiles = F::DTYPE.block_len() / BLOCK;
    let bytes = chunk.len() / tiles * F::DTYPE.block_bytes();
    // SAFETY: the caller's promise.
    unsafe {
        let mut block = rows.at(chunk.start / tiles * F::DTYPE.block_bytes());
        fetch_rows(Rows { first: block.first.wrapping_add(bytes), ..block }, S::LANES, bytes);
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

/// Takes `MR` activation rows, of which `row` is the first, through a chunk of neighbouring
/// panels.
///
/// # Safety
/// As for [`run`]; the panels' tiles are at `tiles`, and at `so_far` there is room for as many
/// sums,
/// and those of the blocks before the chunk, if any.
#[inline(always)]
unsafe fn through<S: Simd, F: Format, const NR: usize, const MR: usize>(
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
                    fetch_to_write(job.address(row + r, panel.first));
                }
            }
        }
        let mut sums = [[S::splat(0.0); MR]; NR];
        // One by one: as a whole they would be copied by a call.
        if chunk.start > 0 {
            for (i, sum) in sums.as_flattened_mut().iter_mut().enumerate() {
                *sum = *so_far.add(i);
            }
        }
        let mut x = activation_rows::<MR>(job, row, chunk.start / CHUNK);
        let mut at = [tiles; NR];
        for (i, at) in at.iter_mut().enumerate() {
            *at = at.add(i * chunk.len());
        }
        for _ in chunk.clone() {
            for x in x {
                fetch_near(x.wrapping_add(MR * CHUNK).cast());
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
unsafe fn multiply<S: Simd, F: Format, const NR: usize, const MR: usize>(
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
unsafe fn dot<S: Simd, F: Format, const N: usize, const NR: usize, const MR: usize>(
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
unsafe fn store<S: Simd>(job: &Job<'_>, panel: Panel, row: usize, mut sums: S::F) {
    // SAFETY: a vector has at most 16 lanes; nobody else writes this job's results.
    unsafe {
        if panel.count < S::LANES {
            let mut lanes = [0.0; 16];
            S::store(sums, lanes.as_mut_ptr());
            job.output(row, panel.first + panel.skip, &lanes[panel.skip..][..panel.count]);
            return;
        }
        let start = row * job.output.stride + panel.first;
        let to = job.output.values.slice_mut(start..start + S::LANES).as_mut_ptr();
        // The sum of two numbers is their fused product with 1.
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
