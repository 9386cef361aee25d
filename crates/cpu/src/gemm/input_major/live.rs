//! The live inputs of rows, compacted for the kernels.

use std::cell::UnsafeCell;
use std::ops::Range;

use bytemuck::Zeroable;

use super::super::activations::{Activations, Block};
use super::super::tile::BLOCK;
use super::layout::InputMajor;
use super::select::{OF_LOWER, mask};
use crate::isa::Isa;
use crate::simd::{Body, Simd, dispatch};

/// The live inputs of a block of 32, in groups of four: those whose lower halves are
/// live too come first.
#[derive(Clone, Copy, Debug, Zeroable)]
#[repr(C, align(64))]
pub(super) struct LiveBlock {
    /// The codes of the live inputs.
    pub(super) codes: [i8; BLOCK],
    /// The input of each code; where the last group is not full an input of it
    /// again, with the code 0.
    pub(super) lines: [u8; BLOCK],
    /// The scale of the codes.
    pub(super) scale: f32,
    /// The sum of the codes of inputs whose lower halves are live, and of the others.
    pub(super) both: i32,
    pub(super) left_out: i32,
    /// The codes of the last group of lower halves, 0 for inputs whose upper half alone is live.
    pub(super) last_lower: [i8; 4],
    /// Groups of upper halves, and of lower ones.
    groups: [u8; 2],
}

impl LiveBlock {
    /// Groups of each half, at most eight.
    #[inline(always)]
    pub(super) fn groups(&self) -> [usize; 2] {
        self.groups.map(|groups| usize::from(groups.min(8)))
    }

    /// The sum of the codes that multiply a half: 0 for the upper one, and 1.
    #[inline(always)]
    pub(super) fn sum_of(&self, half: usize) -> i32 {
        if half == 0 { self.both + self.left_out } else { self.both }
    }
}

/// Inputs that a thread compacts together.
const CHUNK: usize = 256;

/// The live inputs of several rows, each `[cols]`, which threads fill together.
#[derive(Debug)]
pub struct LiveRows {
    cols: usize,
    blocks: Box<[UnsafeCell<LiveBlock>]>,
    /// The number of live halves of each chunk `[rows, chunks]`.
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
    /// The prepared activations and the row of them.
    pub activations: (&'a Activations, usize),
}

impl LiveRows {
    /// Allocates for `rows` rows of up to `cols` inputs. `None` if the system refuses the memory.
    pub fn new(rows: usize, cols: usize) -> Option<Self> {
        let cols = cols.next_multiple_of(CHUNK);
        let per_row = |cols: usize| rows.checked_mul(cols);
        Some(Self {
            cols,
            blocks: zeroed(per_row(cols / BLOCK)?)?,
            counts: zeroed(per_row(cols / CHUNK)?)?,
        })
    }

    /// Bytes that [`new`](Self::new) allocates.
    pub fn bytes(rows: usize, cols: usize) -> u128 {
        let cols = cols.next_multiple_of(CHUNK) as u128;
        rows as u128 * (cols / BLOCK as u128 * size_of::<LiveBlock>() as u128 + cols / 64)
    }

    /// Inputs of a chunk.
    pub const CHUNK: usize = CHUNK;

    /// The chunks of a row of `cols` inputs, into which compacting it can be split.
    pub const fn units(cols: usize) -> usize {
        cols.div_ceil(CHUNK)
    }

    /// Compacts the live inputs of the chunks `units` of a row as row `to`. Returns how
    /// many halves are live.
    ///
    /// # Safety
    /// No other thread reads or writes these chunks of row `to`. The row of the activations has
    /// been prepared, and no thread writes it.
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
}

/// The compaction of some chunks of a row, compiled for an instruction set. No other
/// thread accesses them.
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
        let &Chosen { x, matrix, least, activations: (activations, row) } = chosen;
        let live_of = |block: usize, factor: f32| {
            let inputs = block * BLOCK..x.len().min((block + 1) * BLOCK);
            mask(&x[inputs.clone()], &matrix.norms()[inputs], factor, least)
        };
        let all = x.len() / BLOCK;
        let blocks = &rows.blocks[to * (rows.cols / BLOCK)..][..all];
        let (first, end) = (units.start * CHUNK / BLOCK, all.min(units.end * CHUNK / BLOCK));
        let counts = &rows.counts[to * (rows.cols / CHUNK)..];
        for (block, live) in blocks.iter().enumerate().take(end).skip(first) {
            let (upper, lower) = (live_of(block, 1.0), live_of(block, OF_LOWER));
            let found = upper.count_ones() + lower.count_ones();
            let place = activations.place(row, block);
            // SAFETY: it has been prepared, and this thread alone writes the block.
            unsafe {
                let count = counts[block * BLOCK / CHUNK].get();
                let is_first = (block * BLOCK).is_multiple_of(CHUNK);
                *count = found + if is_first { 0 } else { *count };
                compact(&*activations.blocks().add(place), upper, lower, &mut *live.get());
            }
        }
    }
}

/// Writes the inputs of `upper` of a block, those of `lower` first, whose lower
/// halves are live too.
#[inline(always)]
fn compact(from: &Block, upper: u32, lower: u32, to: &mut LiveBlock) {
    let (mut at, mut sums) = (0, [0; 2]);
    for (part, mut left) in [upper & lower, upper & !lower].into_iter().enumerate() {
        while left != 0 {
            let input = left.trailing_zeros() as usize;
            left &= left - 1;
            let code = from.codes[input & 31];
            to.codes[at & 31] = code;
            to.lines[at & 31] = input as u8;
            sums[part] += i32::from(code);
            at += 1;
        }
        if part == 0 {
            to.groups[1] = at.div_ceil(4) as u8;
            for (i, code) in to.last_lower.iter_mut().enumerate() {
                let place = (at.saturating_sub(1) / 4 * 4) + i;
                *code = if place < at { to.codes[place & 31] } else { 0 };
            }
        }
    }
    // the last group is filled up with an input that is read anyway
    let last = to.lines[at.saturating_sub(1) & 31];
    for place in at..at.next_multiple_of(4) {
        (to.codes[place & 31], to.lines[place & 31]) = (0, last);
    }
    to.groups[0] = at.div_ceil(4) as u8;
    [to.both, to.left_out] = sums;
    to.scale = from.scale;
}

/// A slice of `len` zeroed values; `None` if the system refuses the memory.
fn zeroed<T: Zeroable>(len: usize) -> Option<Box<[UnsafeCell<T>]>> {
    Some(bytemuck::allocation::try_zeroed_vec(len).ok()?.into_boxed_slice())
}
