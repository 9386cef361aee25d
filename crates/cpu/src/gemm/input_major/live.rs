//! The live inputs of rows, compacted for the kernels.

use std::cell::UnsafeCell;
use std::ops::Range;

use bytemuck::Zeroable;
use pelton_quant::DType;

use super::super::activations::{Activations, Block};
use super::super::tile::BLOCK;
use super::layout::InputMajor;
use super::select::{OF_LOWER, mask};
use crate::isa::Isa;
use crate::simd::{Body, Simd, dispatch};

/// The live inputs of a block of 32, in groups of four.
#[derive(Clone, Copy, Debug, Zeroable)]
#[repr(C, align(64))]
pub(super) struct LiveBlock {
    /// The codes of the live inputs, from the first on, and sums over them.
    pub(super) block: Block,
    /// The input of each code; where a group is not full an input of it again, with the code 0.
    pub(super) lines: [u8; BLOCK],
    /// Groups of the first and the second half, if the halves are separate; or all, and none.
    pub(super) groups: [u8; 2],
    /// The groups of inputs of nested codes whose lower halves are live, which come first, ...
    pub(super) lower_groups: u8,
    /// ... the codes of the last of them, 0 for inputs whose upper half alone is live, ...
    pub(super) last_lower: [i8; 4],
    /// ... and the sum of the codes of those.
    pub(super) upper_sum: i32,
}

/// The inputs of a block of nested codes whose lower halves are multiplied: those of the first groups.
#[derive(Clone, Copy)]
pub(super) struct Lower {
    pub(super) groups: usize,
    /// The codes of the last of these groups, 0 for inputs whose upper half alone is multiplied.
    pub(super) last: [i8; 4],
    /// The sum of the codes of the others.
    pub(super) left_out: i32,
}

impl LiveBlock {
    /// Groups of each part, at most eight of both.
    #[inline(always)]
    pub(super) fn groups(&self) -> [usize; 2] {
        self.groups.map(|groups| usize::from(groups.min(8)))
    }

    /// The inputs whose lower halves are live.
    #[inline(always)]
    pub(super) fn lower(&self) -> Lower {
        let groups = usize::from(self.lower_groups.min(self.groups[0]));
        Lower { groups, last: self.last_lower, left_out: self.upper_sum }
    }
}

/// A live input of a row of floats.
#[derive(Clone, Copy, Debug, Zeroable)]
#[repr(C)]
pub(super) struct LiveColumn {
    pub(super) input: u32,
    pub(super) x: f32,
}

/// Inputs of floats whose products are added up before they are added to the others.
pub(super) const CHUNK: usize = 256;

/// The live inputs of several rows, each `[cols]`, which threads fill together.
#[derive(Debug)]
pub struct LiveRows {
    cols: usize,
    blocks: Box<[UnsafeCell<LiveBlock>]>,
    /// The live columns of a chunk begin at its first input.
    columns: Box<[UnsafeCell<LiveColumn>]>,
    /// The number of live inputs of each chunk `[rows, chunks]`, with nested codes of halves.
    counts: Box<[UnsafeCell<u32>]>,
}

// SAFETY: plain data; the contracts of `choose` and `multiply` keep writers and readers apart.
unsafe impl Sync for LiveRows {}

/// A row whose live inputs are compacted for one matrix.
#[derive(Clone, Copy)]
pub struct Chosen<'a> {
    /// The row `[cols]`.
    pub x: &'a [f32],
    /// The matrix.
    pub matrix: &'a InputMajor,
    /// The least score of live inputs, by its bits.
    pub least: u32,
    /// The prepared activations and the row of them, for a matrix in blocks.
    pub activations: Option<(&'a Activations, usize)>,
}

impl LiveRows {
    /// Allocates for `rows` rows of up to `blocks` inputs in blocks and `floats` inputs in floats. `None` if
    /// the system refuses the memory.
    pub fn new(rows: usize, blocks: usize, floats: usize) -> Option<Self> {
        let cols = blocks.max(floats).next_multiple_of(CHUNK);
        let per_row = |cols: usize| rows.checked_mul(cols);
        Some(Self {
            cols,
            blocks: zeroed(per_row(if blocks > 0 { cols / BLOCK } else { 0 })?)?,
            columns: zeroed(per_row(if floats > 0 { cols } else { 0 })?)?,
            counts: zeroed(per_row(cols / CHUNK)?)?,
        })
    }

    /// Bytes that [`new`](Self::new) allocates.
    pub fn bytes(rows: usize, blocks: usize, floats: usize) -> u128 {
        let cols = blocks.max(floats).next_multiple_of(CHUNK) as u128;
        let of_blocks = if blocks > 0 { cols / 32 * size_of::<LiveBlock>() as u128 } else { 0 };
        let of_floats = if floats > 0 { cols * size_of::<LiveColumn>() as u128 } else { 0 };
        rows as u128 * (of_blocks + of_floats + cols / 64)
    }

    /// Inputs of a chunk.
    pub const CHUNK: usize = CHUNK;

    /// The chunks of a row of `cols` inputs, into which compacting it can be split.
    pub const fn units(cols: usize) -> usize {
        cols.div_ceil(CHUNK)
    }

    /// Compacts the live inputs of the chunks `units` of a row as row `to`. Returns how many these are, with
    /// nested codes how many halves.
    ///
    /// # Safety
    /// No other thread reads or writes these chunks of row `to`. The row of the activations has been
    /// prepared, and no thread writes it.
    ///
    /// # Panics
    /// If there is no such row or chunk.
    pub unsafe fn choose(
        &self,
        isa: Isa,
        to: usize,
        chosen: &Chosen<'_>,
        units: Range<usize>,
    ) -> u64 {
        let (cols, norms) = (chosen.x.len(), chosen.matrix.norms());
        assert!(cols <= self.cols && cols == norms.len(), "rows of another length");
        assert!(units.end <= Self::units(cols), "chunks beyond the row");
        dispatch(isa, Compact { rows: self, to, chosen, units: units.clone() });
        let counts = &self.counts[to * (self.cols / CHUNK)..][units];
        // SAFETY: this thread alone writes the chunks.
        counts.iter().map(|count| u64::from(unsafe { *count.get() })).sum()
    }

    /// The blocks of a row.
    pub(super) fn blocks(&self, row: usize) -> *const LiveBlock {
        let blocks = &self.blocks[row * (self.cols / BLOCK)..][..self.cols / BLOCK];
        UnsafeCell::raw_get(blocks.as_ptr())
    }

    /// The live columns of chunk `chunk` of a row.
    ///
    /// # Safety
    /// The row has been chosen and is not being written.
    pub(super) unsafe fn columns(&self, row: usize, chunk: usize) -> &[LiveColumn] {
        let columns = &self.columns[row * self.cols + chunk * CHUNK..][..CHUNK];
        // SAFETY: the caller's promise.
        unsafe {
            let count = *self.counts[row * (self.cols / CHUNK) + chunk].get() as usize;
            let columns = &columns[..count.min(CHUNK)];
            std::slice::from_raw_parts(UnsafeCell::raw_get(columns.as_ptr()), columns.len())
        }
    }
}

/// The compaction of some chunks of a row, compiled for an instruction set. No other thread accesses
/// them.
struct Compact<'a> {
    rows: &'a LiveRows,
    to: usize,
    chosen: &'a Chosen<'a>,
    units: Range<usize>,
}

impl Body for Compact<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { rows, to, chosen, units } = self;
        let &Chosen { x, matrix, least, activations } = chosen;
        let live_of = |block: usize, factor: f32| {
            let inputs = block * BLOCK..x.len().min((block + 1) * BLOCK);
            mask(&x[inputs.clone()], &matrix.norms()[inputs], factor, least)
        };
        let Some((activations, row)) = activations else {
            let columns = &rows.columns[to * rows.cols..][..rows.cols];
            for unit in units {
                let mut found = 0;
                for block in unit * CHUNK / BLOCK..x.len().min((unit + 1) * CHUNK).div_ceil(BLOCK) {
                    let mut mask = live_of(block, 1.0);
                    while mask != 0 {
                        let input = block * BLOCK + mask.trailing_zeros() as usize;
                        mask &= mask - 1;
                        let column = LiveColumn { input: input as u32, x: x[input] };
                        // SAFETY: this thread alone writes the chunk.
                        unsafe { *columns[unit * CHUNK + found].get() = column };
                        found += 1;
                    }
                }
                // SAFETY: as above.
                unsafe { *rows.counts[to * (rows.cols / CHUNK) + unit].get() = found as u32 };
            }
            return;
        };
        // those have a scale for each half of a block
        let halves = matrix.dtype() == DType::Q6_K;
        let all = x.len() / BLOCK;
        let blocks = &rows.blocks[to * (rows.cols / BLOCK)..][..all];
        let (first, end) = (units.start * CHUNK / BLOCK, all.min(units.end * CHUNK / BLOCK));
        let nested = matrix.is_nested();
        let counts = &rows.counts[to * (rows.cols / CHUNK)..];
        for (block, live) in blocks.iter().enumerate().take(end).skip(first) {
            let mask = live_of(block, 1.0);
            let lower = nested.then(|| live_of(block, OF_LOWER));
            let found = mask.count_ones() + lower.map_or(0, u32::count_ones);
            let place = activations.place(row, block);
            // SAFETY: it has been prepared, and this thread alone writes the block.
            unsafe {
                let count = counts[block * BLOCK / CHUNK].get();
                let is_first = (block * BLOCK).is_multiple_of(CHUNK);
                *count = found + if is_first { 0 } else { *count };
                let from = &*activations.blocks().add(place);
                match lower {
                    None => compact(from, mask, halves, &mut *live.get()),
                    Some(lower) => compact_nested(from, mask, lower, &mut *live.get()),
                }
            }
        }
    }
}

/// Writes the inputs of `mask` of a block; with `halves` those of each half begin a group.
#[inline(always)]
fn compact(from: &Block, mask: u32, halves: bool, to: &mut LiveBlock) {
    let (mut at, mut sums) = (0, [0; 2]);
    for (half, sum) in sums.iter_mut().enumerate() {
        let begin = at;
        let mut left = mask >> (16 * half) & 0xffff;
        while left != 0 {
            let input = 16 * half + left.trailing_zeros() as usize;
            left &= left - 1;
            let code = from.codes[input & 31];
            to.block.codes[at & 31] = code;
            to.lines[at & 31] = input as u8;
            *sum += i32::from(code);
            at += 1;
        }
        if halves || half == 1 {
            // the last group is filled up with an input that is read anyway
            let last = to.lines[at.saturating_sub(1) & 31];
            let end = at.next_multiple_of(4);
            for place in at..end {
                (to.block.codes[place & 31], to.lines[place & 31]) = (0, last);
            }
            at = end;
        }
        to.groups[half] = ((at - if halves { begin } else { 0 }) / 4) as u8;
    }
    if !halves {
        to.groups = [to.groups[1], 0];
    }
    let sum = sums[0] + sums[1];
    to.block.scale = from.scale;
    // only the sum of the two parts counts here
    to.block.minus_pairs = [-sum as i16, 0];
    to.block.minus_half_pairs = sums.map(|sum| [-sum as i16, 0]);
    to.block.sum = from.scale * sum as f32;
    to.block.half_sums = [from.scale * sums[0] as f32, from.scale * sums[1] as f32];
}

/// Writes the inputs of `mask` of a block, those of `lower` first, whose lower halves are live too.
#[inline(always)]
fn compact_nested(from: &Block, mask: u32, lower: u32, to: &mut LiveBlock) {
    let (mut at, mut sums) = (0, [0; 2]);
    for (part, mut left) in [mask & lower, mask & !lower].into_iter().enumerate() {
        while left != 0 {
            let input = left.trailing_zeros() as usize;
            left &= left - 1;
            let code = from.codes[input & 31];
            to.block.codes[at & 31] = code;
            to.lines[at & 31] = input as u8;
            sums[part] += i32::from(code);
            at += 1;
        }
        if part == 0 {
            to.lower_groups = at.div_ceil(4) as u8;
            for (i, code) in to.last_lower.iter_mut().enumerate() {
                let place = (at.saturating_sub(1) / 4 * 4) + i;
                *code = if place < at { to.block.codes[place & 31] } else { 0 };
            }
        }
    }
    // the last group is filled up with an input that is read anyway
    let last = to.lines[at.saturating_sub(1) & 31];
    for place in at..at.next_multiple_of(4) {
        (to.block.codes[place & 31], to.lines[place & 31]) = (0, last);
    }
    to.groups = [at.div_ceil(4) as u8, 0];
    to.upper_sum = sums[1];
    to.block.scale = from.scale;
    // only the sum of the two parts counts here
    to.block.minus_pairs = [-(sums[0] + sums[1]) as i16, 0];
}

/// A slice of `len` zeroed values; `None` if the system refuses the memory.
fn zeroed<T: Zeroable>(len: usize) -> Option<Box<[UnsafeCell<T>]>> {
    Some(bytemuck::allocation::try_zeroed_vec(len).ok()?.into_boxed_slice())
}
