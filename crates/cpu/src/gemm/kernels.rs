//! The kernels of quantized products: unpacking, and the products of tiles.
//!
//! Products of tiles depend on the coding of the weights, not on the format that they were unpacked
//! from, so that several formats share one function.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::activations::Block;
use super::job::Job;
use super::panel::{Panel, panel, prefetch_ahead, prefetch_job};
use super::prefetch::{
    Ahead, PackedPrefetch, ROWS_LEAD, RangePrefetch, packed_prefetch, prefetch_packed,
};
use super::tile::{BLOCK, CHUNK, Coding, Format, Tile, block_rows};
use super::vectors::{Codes, Rows, Vectors};
use crate::memory::prefetch::{Level, prefetch};

/// The panels and activation rows that one call of a kernel multiplies, and their memory.
pub(super) struct TileJob {
    /// The panels; the kernel uses as many as it is made for.
    pub(super) panels: [Panel; 2],
    /// The blocks of 32 columns.
    pub(super) chunk: Range<usize>,
    /// The first activation row.
    pub(super) row: usize,
    /// The panels' tiles `[panels, chunk]`.
    pub(super) tiles: *const u8,
    /// The sums of the blocks before the chunk, if any, and afterwards of those including it.
    pub(super) so_far: *mut f32,
}

/// The most activation rows of [`in_turn`].
pub(super) const MOST_IN_TURN: usize = 16;

/// The product with one activation row: each block of weights is unpacked into registers and used
/// at once.
///
/// # Safety
/// The instructions of `S` exist, and the job's promises hold (see [`Job`]).
#[inline(always)]
pub(super) unsafe fn direct<S: Vectors, F: Format>(job: &Job<'_>) {
    // a loop for each way, as both in one take the registers of its products
    // SAFETY: the caller's promise.
    unsafe {
        match packed_prefetch(S::LANES) {
            _ if !F::PACKED => direct_ahead::<S, F>(job, prefetch_job(job, S::LANES)),
            PackedPrefetch::Lines(lines) => direct_ahead::<S, F>(job, lines),
            PackedPrefetch::Pages(lead) => direct_ahead::<S, F>(job, prefetch_ahead(job, lead)),
        }
    }
}

/// As [`direct`], with a prefetch.
///
/// # Safety
/// As for [`direct`].
#[inline(always)]
unsafe fn direct_ahead<S: Vectors, F: Format>(job: &Job<'_>, mut ahead: impl Ahead) {
    let mut row = job.rows.start;
    while row < job.rows.end {
        // SAFETY: the caller's promise; there are as many blocks in a row of weights as in one
        // of activations, and `unpack` writes the `GROUP` tiles that are then read.
        unsafe {
            let panel = panel(job, S::LANES, row, job.rows.end);
            row += panel.count;
            let mut sums = [[S::splat(0.0)]];
            let (step, mut block) = block_rows::<S, F>(panel.rows);
            let groups = F::DTYPE.block_len() / BLOCK / F::GROUP;
            for chunk in 0..job.row_blocks.div_ceil(CHUNK) {
                let [mut x] = job.activation_rows(job.blocks, 0, chunk);
                let blocks = CHUNK.min(job.row_blocks - chunk * CHUNK);
                for _ in 0..blocks / (groups * F::GROUP) {
                    let header = F::header::<S>(block);
                    for group in 0..groups {
                        let bytes = S::LANES * F::DTYPE.block_bytes() / groups;
                        ahead.advance(block.first.wrapping_add(group * bytes), bytes);
                        let mut tiles = MaybeUninit::<[Tile<S>; 4]>::uninit();
                        let tiles = tiles.as_mut_ptr().cast::<Tile<S>>();
                        F::unpack::<S>(block, &header, group, tiles);
                        for i in 0..F::GROUP {
                            add_magnitudes::<S, F::Coding>(tiles.add(i));
                            multiply::<S, F::Coding, 1, 1>([tiles.add(i)], [x], &mut sums);
                            x = x.add(1);
                        }
                    }
                    block.first = block.first.wrapping_add(step);
                }
            }
            store::<S>(job, panel, 0, sums[0][0]);
        }
    }
}

/// The product of packed rows with up to [`MOST_IN_TURN`] activation rows. Each block of weights is
/// unpacked into registers and multiplied with one activation row after the other.
///
/// # Safety
/// As for [`direct`]; the rows are packed.
#[inline(always)]
pub(super) unsafe fn in_turn<S: Vectors, F: Format>(job: &Job<'_>) {
    let mut rows = [job.blocks; MOST_IN_TURN];
    for (r, x) in rows[..job.batch].iter_mut().enumerate() {
        // SAFETY: there are at most as many activation rows, of at least a chunk.
        [*x] = unsafe { job.activation_rows(job.blocks, r, 0) };
    }
    let mut row = job.rows.start;
    while row < job.rows.end {
        // SAFETY: as in `direct`; there are at most as many activation rows as sums.
        unsafe {
            let panel = panel(job, S::LANES, row, job.rows.end);
            row += panel.count;
            let mut sums = [[[S::splat(0.0)]]; MOST_IN_TURN];
            let (step, mut block) = block_rows::<S, F>(panel.rows);
            let groups = F::DTYPE.block_len() / BLOCK / F::GROUP;
            let bytes = S::LANES * F::DTYPE.block_bytes() / groups;
            for chunk in 0..job.row_blocks.div_ceil(CHUNK) {
                let blocks = CHUNK.min(job.row_blocks - chunk * CHUNK);
                let mut at = chunk * job.chunk_stride;
                let end = at + blocks;
                while at < end {
                    let header = F::header::<S>(block);
                    for group in 0..groups {
                        prefetch_packed(block.first.wrapping_add(group * bytes), bytes, ROWS_LEAD);
                        let mut tiles = MaybeUninit::<[Tile<S>; 4]>::uninit();
                        let tiles = tiles.as_mut_ptr().cast::<Tile<S>>();
                        F::unpack::<S>(block, &header, group, tiles);
                        for i in 0..F::GROUP {
                            add_magnitudes::<S, F::Coding>(tiles.add(i));
                            for (x, sum) in rows[..job.batch].iter().zip(&mut sums) {
                                let x = x.add(at);
                                multiply::<S, F::Coding, 1, 1>([tiles.add(i)], [x], sum);
                            }
                            at += 1;
                        }
                    }
                    block.first = block.first.wrapping_add(step);
                }
            }
            for (r, sum) in sums[..job.batch].iter().enumerate() {
                store::<S>(job, panel, r, sum[0][0]);
            }
        }
    }
}

/// Completes a tile whose codes have been unpacked, if they are signed.
///
/// # Safety
/// There is a tile, and the instructions of `S` exist.
#[inline(always)]
pub(super) unsafe fn add_magnitudes<S: Vectors, C: Coding>(tile: *mut Tile<S>) {
    if matches!(C::CODES, Codes::I8) {
        // SAFETY: the caller's promise.
        unsafe {
            let codes = &(*tile).codes;
            (*tile).magnitudes = S::magnitudes(codes);
        }
    }
}

/// Unpacks the blocks `chunk` of 32 columns, and advances `prefetch` by their bytes.
///
/// # Safety
/// The rows are whole, the instructions of `S` exist, and there is room for the tiles at `to`,
/// aligned.
#[inline(always)]
pub(super) unsafe fn unpack<S: Vectors, F: Format>(
    rows: Rows,
    chunk: Range<usize>,
    to: *mut u8,
    prefetch: &mut RangePrefetch,
) {
    let mut to = to.cast::<Tile<S>>();
    let tiles = F::DTYPE.block_len() / BLOCK;
    // SAFETY: the caller's promise.
    unsafe {
        let (step, rows) = block_rows::<S, F>(rows);
        let mut block = rows.at(chunk.start / tiles * F::DTYPE.block_bytes());
        for _ in 0..chunk.len() / tiles {
            let header = F::header::<S>(block);
            for group in 0..tiles / F::GROUP {
                prefetch.advance(S::LANES * F::DTYPE.block_bytes() * F::GROUP / tiles);
                F::unpack::<S>(block, &header, group, to);
                for _ in 0..F::GROUP {
                    add_magnitudes::<S, F::Coding>(to);
                    to = to.add(1);
                }
            }
            block.first = block.first.wrapping_add(step);
        }
    }
}

/// Multiplies `MR` activation rows with a chunk of `NR` neighbouring panels. `MANY` prefetches the
/// next tile of rows and the lines of the results.
///
/// # Safety
/// As for [`direct`]; the panels' tiles have been unpacked, and there is room for as many sums.
#[inline(always)]
pub(super) unsafe fn through<
    S: Vectors,
    C: Coding,
    const NR: usize,
    const MR: usize,
    const MANY: bool,
>(
    job: &Job<'_>,
    tile_job: &TileJob,
) {
    let TileJob { panels, chunk, row, tiles, so_far } = tile_job;
    let (row, tiles, so_far) = (*row, tiles.cast::<Tile<S>>(), so_far.cast::<S::F>());
    // SAFETY: the caller's promise.
    unsafe {
        if MANY && chunk.end == job.row_blocks {
            for r in 0..MR {
                for panel in &panels[..NR] {
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
            if MANY {
                for x in x {
                    prefetch(x.wrapping_add(MR * CHUNK).cast(), Level::First);
                }
            }
            multiply::<S, C, NR, MR>(at, x, &mut sums);
            for at in &mut at {
                *at = at.add(1);
            }
            for x in &mut x {
                *x = x.add(1);
            }
        }
        for (i, sum) in sums.as_flattened().iter().enumerate() {
            *so_far.add(i) = *sum;
        }
        // from memory, as a loop over the sums would keep them there all along
        if chunk.end == job.row_blocks {
            for (n, panel) in panels[..NR].iter().enumerate() {
                for r in 0..MR.min(job.batch - row) {
                    store::<S>(job, *panel, row + r, *so_far.add(n * MR + r));
                }
            }
        }
    }
}

/// Adds the products of one tile of each of `NR` panels with `MR` blocks of activations.
///
/// # Safety
/// As for the function of a job; the tiles are unpacked.
#[inline(always)]
pub(super) unsafe fn multiply<S: Vectors, C: Coding, const NR: usize, const MR: usize>(
    tiles: [*const Tile<S>; NR],
    x: [*const Block; MR],
    sums: &mut [[S::F; MR]; NR],
) {
    // SAFETY: the caller's promise.
    unsafe {
        if C::HALVES {
            let first = dot::<S, C, 4, NR, MR>(tiles, x, Some(0));
            let second = dot::<S, C, 4, NR, MR>(tiles, x, Some(1));
            for n in 0..NR {
                let tile = tiles[n];
                for r in 0..MR {
                    let x = x[r];
                    let product = S::mul(S::to_f32(first[n][r]), (*tile).scale[0]);
                    let product = S::fma(S::to_f32(second[n][r]), (*tile).scale[1], product);
                    let sum = &mut sums[n][r];
                    *sum = S::fma(product, S::splat((*x).scale), *sum);
                    if C::MIN {
                        *sum = S::fma((*tile).min[0], S::splat((*x).half_sums[0]), *sum);
                        *sum = S::fma((*tile).min[1], S::splat((*x).half_sums[1]), *sum);
                    }
                }
            }
        } else {
            let integers = dot::<S, C, 8, NR, MR>(tiles, x, None);
            for n in 0..NR {
                let tile = tiles[n];
                for r in 0..MR {
                    let x = x[r];
                    let product = S::mul(S::to_f32(integers[n][r]), (*tile).scale[0]);
                    let sum = &mut sums[n][r];
                    *sum = S::fma(product, S::splat((*x).scale), *sum);
                    if C::MIN {
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
unsafe fn dot<S: Vectors, C: Coding, const N: usize, const NR: usize, const MR: usize>(
    tiles: [*const Tile<S>; NR],
    x: [*const Block; MR],
    half: Option<usize>,
) -> [[S::I; MR]; NR] {
    // Where the instructions want unsigned bytes, signed ones come with an offset of 128.
    let signed = matches!(C::CODES, Codes::I8);
    let zero = if signed { S::I8_ZERO } else { C::ZERO };
    let kind = if signed { Codes::I8InTile } else { C::CODES };
    let skip = half.unwrap_or(0) * N;
    // SAFETY: the caller's promise.
    unsafe {
        let mut weights = [std::ptr::null(); NR];
        for (weights, tile) in weights.iter_mut().zip(tiles) {
            *weights = (&raw const (*tile).codes).cast::<S::I>().add(skip);
        }
        let mut codes = [std::ptr::null(); MR];
        for (codes, x) in codes.iter_mut().zip(x) {
            *codes = (&raw const (*x).codes).cast::<i8>().add(4 * skip);
        }
        let Some(zero) = zero else {
            return S::dot::<N, NR, MR>(kind, weights, codes, [S::splat_i(0); MR]);
        };
        let mut minus = [&[0; 2]; MR];
        for (minus, x) in minus.iter_mut().zip(x) {
            *minus = match half {
                None => &(*x).minus_pairs,
                Some(half) => &(*x).minus_half_pairs[half],
            };
        }
        S::dot_from::<N, NR, MR>(kind, zero, weights, codes, minus)
    }
}

/// Writes the results of a panel for activation row `row`.
///
/// # Safety
/// The job's promises hold.
#[inline(always)]
pub(super) unsafe fn store<S: Vectors>(job: &Job<'_>, panel: Panel, row: usize, mut sums: S::F) {
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
