//! Products of quantized matrices: the same loops for every format and instruction set.
//!
//! A lane of a vector is a row of the matrix, and the sum of a row goes block by block of 32
//! columns: the integer products of a block are added up exactly, then the block joins the sum
//! in f32. That order does not depend on how rows and activations are grouped into panels and
//! tiles, nor on the vector's width, so any batching, any number of threads and any instruction
//! set give the same bits.

use std::cell::RefCell;
use std::mem::MaybeUninit;

use super::Job;
use super::activations::Block;
use super::prefetch::Prefetch;
use super::simd::{Codes, Simd};
use super::tile::{BLOCK, Format, Rows, Tile};

/// Activation rows up to which weights are multiplied as they are unpacked. With more it pays
/// to unpack them into memory first, from where several tiles of activations are multiplied.
const MAX_DIRECT: usize = 8;
/// Bytes of unpacked weights kept at hand: a good part of a second-level cache.
const PACKED_BYTES: usize = 256 << 10;
/// Activation rows taken through unpacked weights at once.
const BATCH: usize = 4;
const LINE: usize = 64;

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
            _ => packed::<S, F>(job),
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

/// The blocks of `MR` activation rows from `row` on. Beyond the last row it repeats that one;
/// its results are not kept.
///
/// # Safety
/// The job's promises hold.
#[inline(always)]
unsafe fn activation_rows<const MR: usize>(job: &Job<'_>, row: usize) -> [*const Block; MR] {
    let mut rows = [job.blocks; MR];
    for (i, x) in rows.iter_mut().enumerate() {
        // SAFETY: the row is one of the batch.
        *x = unsafe { x.add((row + i).min(job.batch - 1) * job.row_blocks) };
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
            let mut x = activation_rows::<MR>(job, 0);
            let mut sums = [[S::splat(0.0); MR]];
            let mut block = panel.rows;
            let groups = F::DTYPE.block_len() / BLOCK / F::GROUP;
            for _ in 0..job.row_blocks / (groups * F::GROUP) {
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
            for (i, sums) in sums[0].iter().enumerate().take(job.batch) {
                store::<S>(job, panel, i, *sums);
            }
        }
    }
}

/// The unit in which scratch memory is allocated.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "only its size and alignment matter")] [u8; LINE]);

thread_local! {
    /// This thread's unpacked weights.
    static SCRATCH: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
}

/// The product for many activation rows: some panels of weights are unpacked into memory, then
/// tiles of activations are taken through them.
///
/// # Safety
/// As for [`run`].
#[inline(always)]
unsafe fn packed<S: Simd, F: Format>(job: &Job<'_>) {
    let panel_bytes = job.row_blocks * size_of::<Tile<S>>();
    let room = (PACKED_BYTES / panel_bytes).max(2);
    let mut scratch = SCRATCH.take();
    if scratch.len() < room * panel_bytes / LINE {
        scratch.resize(room * panel_bytes / LINE, Line([0; LINE]));
    }
    let tiles: *mut Tile<S> = scratch.as_mut_ptr().cast();
    let mut prefetch = prefetch::<S>(job);
    let mut row = job.rows.start;
    while row < job.rows.end {
        // SAFETY: the caller's promise; there is room for as many panels, aligned, and of each
        // tile the multiplication reads what `unpack` has written.
        unsafe {
            let mut next = row;
            let mut panels = 0;
            while next < job.rows.end && panels < room {
                let panel = panel::<S>(job, next, job.rows.end);
                let to = tiles.add(panels * job.row_blocks);
                unpack::<S, F>(job, panel.rows, &mut prefetch, to);
                next += panel.count;
                panels += 1;
            }
            let mut x = 0;
            while x < job.batch {
                let rows = activation_rows::<BATCH>(job, x);
                let mut at = tiles.cast_const();
                let mut to = row;
                while to < next {
                    let first = panel::<S>(job, to, job.rows.end);
                    to += first.count;
                    if S::PANELS == 2 && to < next {
                        let second = panel::<S>(job, to, job.rows.end);
                        to += second.count;
                        through::<S, F, 2>(job, [first, second], at, rows, x);
                        at = at.add(2 * job.row_blocks);
                    } else {
                        through::<S, F, 1>(job, [first], at, rows, x);
                        at = at.add(job.row_blocks);
                    }
                }
                x += BATCH;
            }
            row = next;
        }
    }
    SCRATCH.set(scratch);
}

/// Unpacks whole rows.
///
/// # Safety
/// As for [`run`]; there is room for the tiles of a row at `to`.
#[inline(always)]
unsafe fn unpack<S: Simd, F: Format>(
    job: &Job<'_>,
    rows: Rows,
    prefetch: &mut Prefetch,
    mut to: *mut Tile<S>,
) {
    let mut block = rows;
    let groups = F::DTYPE.block_len() / BLOCK / F::GROUP;
    for _ in 0..job.row_blocks / (groups * F::GROUP) {
        // SAFETY: the caller's promise.
        unsafe {
            let header = F::header::<S>(block);
            for group in 0..groups {
                prefetch.advance(S::LANES * F::DTYPE.block_bytes() / groups);
                F::unpack::<S>(block, &header, group, to);
                to = to.add(F::GROUP);
            }
            block.first = block.first.wrapping_add(F::DTYPE.block_bytes());
        }
    }
}

/// Takes the rows `x`, of which `index` is the first, through neighbouring panels of tiles.
///
/// # Safety
/// As for [`run`]; the panels' tiles are at `tiles`.
#[inline(always)]
unsafe fn through<S: Simd, F: Format, const NR: usize>(
    job: &Job<'_>,
    panels: [Panel; NR],
    tiles: *const Tile<S>,
    mut x: [*const Block; BATCH],
    index: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [[S::splat(0.0); BATCH]; NR];
        let mut at = [tiles; NR];
        for (i, at) in at.iter_mut().enumerate() {
            *at = at.add(i * job.row_blocks);
        }
        for _ in 0..job.row_blocks {
            multiply::<S, F, NR, BATCH>(at, x, &mut sums);
            for at in &mut at {
                *at = at.add(1);
            }
            for x in &mut x {
                *x = x.add(1);
            }
        }
        for (panel, sums) in panels.iter().zip(&sums) {
            for (i, sums) in sums.iter().enumerate().take(job.batch - index) {
                store::<S>(job, *panel, index + i, *sums);
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
unsafe fn store<S: Simd>(job: &Job<'_>, panel: Panel, row: usize, sums: S::F) {
    let mut lanes = [0.0; 16];
    // SAFETY: a vector has at most 16 lanes; nobody else writes this job's results.
    unsafe {
        S::store(sums, lanes.as_mut_ptr());
        job.output(row, panel.first + panel.skip, &lanes[panel.skip..][..panel.count]);
    }
}
