//! The live inputs of rows, compacted for the kernels.

use std::cell::UnsafeCell;

use bytemuck::Zeroable;
use pelton_quant::DType;

use super::super::activations::{Activations, Block};
use super::super::tile::BLOCK;
use super::layout::InputMajor;
use super::select::Choice;

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
    columns: Box<[UnsafeCell<LiveColumn>]>,
    /// The first live column of each chunk `[rows, chunks + 1]`.
    chunks: Box<[UnsafeCell<u32>]>,
    choices: Box<[UnsafeCell<Choice>]>,
}

// SAFETY: plain data; the contracts of `choose` and `multiply` keep writers and readers apart.
unsafe impl Sync for LiveRows {}

impl LiveRows {
    /// Allocates for `rows` rows of up to `blocks` inputs in blocks and `floats` inputs in floats,
    /// and the choices of `threads` threads; `None` if the system refuses the memory.
    pub fn new(rows: usize, blocks: usize, floats: usize, threads: usize) -> Option<Self> {
        let cols = blocks.max(floats).next_multiple_of(CHUNK);
        let per_row = |cols: usize| rows.checked_mul(cols);
        Some(Self {
            cols,
            blocks: zeroed(per_row(if blocks > 0 { cols / BLOCK } else { 0 })?)?,
            columns: zeroed(per_row(if floats > 0 { cols } else { 0 })?)?,
            chunks: zeroed(per_row(cols / CHUNK + 1)?)?,
            choices: (0..threads).map(|_| UnsafeCell::new(Choice::new(cols))).collect(),
        })
    }

    /// Bytes that [`new`](Self::new) allocates.
    pub fn bytes(rows: usize, blocks: usize, floats: usize, threads: usize) -> u128 {
        let cols = blocks.max(floats).next_multiple_of(CHUNK) as u128;
        let of_blocks = if blocks > 0 { cols / 32 * size_of::<LiveBlock>() as u128 } else { 0 };
        let of_floats = if floats > 0 { cols * size_of::<LiveColumn>() as u128 } else { 0 };
        rows as u128 * (of_blocks + of_floats + cols / 64) + threads as u128 * (8 * cols + 8192)
    }

    /// Chooses `count` live inputs of `x` `[cols]` for a matrix, and compacts them as row `to`: those
    /// of a row of `activations` if there are any, or in floats.
    ///
    /// # Safety
    /// No other thread reads or writes row `to`, nor calls this as thread `thread`; the row of the
    /// activations has been prepared, and no thread writes it.
    ///
    /// # Panics
    /// If there is no such row.
    pub unsafe fn choose(
        &self,
        thread: usize,
        to: usize,
        x: &[f32],
        matrix: &InputMajor,
        count: usize,
        activations: Option<(&Activations, usize)>,
    ) {
        let norms = matrix.norms();
        assert!(x.len() <= self.cols && x.len() == norms.len(), "rows of another length");
        // those have a scale for each half of a block
        let halves = matrix.dtype() == DType::Q6_K;
        // SAFETY: one thread has this scratch memory, by contract.
        let choice = unsafe { &mut *self.choices[thread].get() };
        choice.choose(x, norms, count);
        match activations {
            Some((activations, row)) => {
                let blocks = &self.blocks[to * (self.cols / BLOCK)..][..x.len() / BLOCK];
                let mut live = [false; BLOCK];
                choice.each(|input, is_live| {
                    live[input % BLOCK] = is_live;
                    if input % BLOCK == BLOCK - 1 {
                        let place = activations.place(row, input / BLOCK);
                        // SAFETY: it has been prepared, and this thread alone writes the block.
                        unsafe {
                            let from = &*activations.blocks().add(place);
                            *blocks[input / BLOCK].get() = compact(from, &live, halves);
                        }
                    }
                });
            }
            None => {
                let columns = &self.columns[to * self.cols..][..x.len()];
                let chunks = &self.chunks[to * (self.cols / CHUNK + 1)..];
                let mut found = 0;
                choice.each(|input, is_live| {
                    // SAFETY: this thread alone writes the row.
                    unsafe {
                        if input % CHUNK == 0 {
                            *chunks[input / CHUNK].get() = found as u32;
                        }
                        if is_live {
                            *columns[found].get() = LiveColumn { input: input as u32, x: x[input] };
                            found += 1;
                        }
                    }
                });
                // SAFETY: as above.
                unsafe { *chunks[x.len().div_ceil(CHUNK)].get() = found as u32 };
            }
        }
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
        let chunks = &self.chunks[row * (self.cols / CHUNK + 1)..];
        let columns = &self.columns[row * self.cols..][..self.cols];
        // SAFETY: the caller's promise.
        unsafe {
            let (first, end) = (*chunks[chunk].get() as usize, *chunks[chunk + 1].get() as usize);
            let columns = &columns[first..end];
            std::slice::from_raw_parts(UnsafeCell::raw_get(columns.as_ptr()), columns.len())
        }
    }
}

/// The live inputs of a block; with `halves` those of each half begin a group.
fn compact(from: &Block, live: &[bool; BLOCK], halves: bool) -> LiveBlock {
    let mut to = LiveBlock::zeroed();
    let (mut at, mut sums) = (0, [0; 2]);
    let (codes, lives) = (from.codes.chunks(16), live.chunks(16));
    for (half, ((codes, lives), sum)) in codes.zip(lives).zip(&mut sums).enumerate() {
        let begin = at;
        for (i, (&code, &is_live)) in codes.iter().zip(lives).enumerate() {
            // without a branch: the next one overwrites an input that is not live
            to.block.codes[at & 31] = code;
            to.lines[at & 31] = (16 * half + i) as u8;
            *sum += i32::from(code) * i32::from(is_live);
            at += usize::from(is_live);
        }
        if halves || half == 1 {
            // the last group is filled up with an input that is read anyway
            let last = to.lines[at.saturating_sub(1) & 31];
            let end = at.next_multiple_of(4);
            for place in at..end {
                (to.block.codes[place], to.lines[place]) = (0, last);
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
    to.block.minus_sum = -sum;
    to.block.minus_half_sums = [-sums[0], -sums[1]];
    to.block.sum = from.scale * sum as f32;
    to.block.half_sums = [from.scale * sums[0] as f32, from.scale * sums[1] as f32];
    to
}

/// A slice of `len` zeroed values; `None` if the system refuses the memory.
fn zeroed<T: Zeroable>(len: usize) -> Option<Box<[UnsafeCell<T>]>> {
    Some(bytemuck::allocation::try_zeroed_vec(len).ok()?.into_boxed_slice())
}
