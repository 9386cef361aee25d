//! The product of one row with nested lines of Q8_0: of an input nothing is read, or the upper halves of
//! its codes, or both.
//!
//! A code is 16 u + l, with u from -8 to 7 and l from 0 to 15. Where l is not read it counts as its mean
//! of 7.5. Sums of a block are exact in f32, so that a row with all halves gets the results of Q8_0.

use std::ops::Range;

use super::super::scratch;
use super::super::tile::BLOCK;
use super::super::vectors::Codes;
use super::dispatch::{Task, slabs, store};
use super::kernels::{BlockAt, Coded, NestedQ8_0, Places, RUN, Segment};
use super::layout::SLAB;
use super::lines::Lines;
use super::live::LiveBlock;
use crate::memory::prefetch::{Level, prefetch};

/// The mean of the lower halves that are not read.
const MEAN: f32 = 7.5;
/// The exponent of the offset of upper halves.
const OFFSET: u32 = 3;

type Half<S> = Segment<S, NestedQ8_0>;

/// Computes the outputs `outputs` of a row whose live inputs are in blocks.
///
/// # Safety
/// As for [`multiply`](super::multiply).
#[inline(always)]
pub(super) unsafe fn one_row<'a, S: Lines>(
    task: &Task<'_>,
    row: usize,
    inputs: &impl Fn(usize) -> &'a LiveBlock,
    outputs: Range<usize>,
) {
    let blocks = task.matrix.cols / BLOCK;
    let mut memory = scratch::alloc(SLAB * size_of::<f32>());
    for (slab, width, first, part) in slabs(task.matrix, outputs.clone()) {
        let sums = &mut memory[..part.len()];
        sums.fill(0.0);
        // SAFETY: the caller's promise; there is a sum for each output of the part.
        unsafe {
            let place = |block: usize| {
                let at = BlockAt::new::<NestedQ8_0>(slab, width, block);
                Places::new::<NestedQ8_0>(at, inputs(block))
            };
            let runs = part.start / RUN..part.end / RUN;
            let mut at = place(0);
            for block in 0..blocks {
                let next = (block + 1 < blocks).then(|| (place(block + 1), inputs(block + 1)));
                let next_of = next.as_ref().map(|(at, live)| (at, *live));
                one_block::<S>(&at, inputs(block), runs.clone(), sums.as_mut_ptr(), next_of);
                if let Some((next, _)) = next {
                    at = next;
                }
            }
            store(&task.output, row, first + part.start, outputs.end, sums);
        }
    }
    scratch::free(memory);
}

/// Prefetches the live lines and the scales of a run.
#[inline(always)]
fn prefetch_run(places: &Places, live: &LiveBlock, run: usize) {
    let (at, line) = (&places.at, NestedQ8_0::FIELDS.line(RUN));
    let upper = at.lines.wrapping_add(run * line);
    let lower = upper.wrapping_add(BLOCK * NestedQ8_0::FIELDS.line(at.outputs));
    let inputs = (4 * places.groups[0]).min(BLOCK);
    let of_lower = (4 * usize::from(live.lower_groups)).min(inputs);
    for &line in &places.lines[..inputs] {
        prefetch(upper.wrapping_add(line as usize), Level::First);
    }
    for &line in &places.lines[..of_lower] {
        prefetch(lower.wrapping_add(line as usize), Level::First);
    }
    for byte in (0..2 * RUN).step_by(64) {
        prefetch(at.fields.wrapping_add(run * 2 * RUN + byte), Level::First);
    }
}

/// Adds the products of a block's live halves with the runs `runs` of outputs to their sums, and
/// prefetches the same of `next`.
///
/// # Safety
/// The block exists, the instructions of `S` too, and `sums` has a value for each output of the
/// runs, from the first on.
#[inline(always)]
unsafe fn one_block<S: Lines>(
    places: &Places,
    live: &LiveBlock,
    runs: Range<usize>,
    sums: *mut f32,
    next: Option<(&Places, &LiveBlock)>,
) {
    let first = runs.start;
    // SAFETY: the caller's promise.
    unsafe {
        let rest = S::splat(MEAN * live.upper_sum as f32);
        for run in runs {
            if let Some((next, live)) = next {
                prefetch_run(next, live, run);
            }
            for segment in 0..Half::<S>::COUNT {
                let found = dot::<S>(places, live, run, segment);
                for (vector, found) in found.iter().enumerate() {
                    let output = Half::<S>::output(segment, vector);
                    let [scale, _] = NestedQ8_0::scales::<S>(&places.at, run * RUN + output);
                    let to = sums.add((run - first) * RUN + output);
                    let sum = S::load_f32(to.cast_const().cast());
                    let found = S::fma(S::to_f32(*found), S::splat(1.0), rest);
                    let sum = S::fma(S::mul(found, scale[0]), S::splat(live.block.scale), sum);
                    S::store(sum, to);
                }
            }
        }
    }
}

/// The integer products of the live halves of a block with a segment of outputs.
///
/// # Safety
/// As for [`one_block`].
#[inline(always)]
unsafe fn dot<S: Lines>(
    places: &Places,
    live: &LiveBlock,
    run: usize,
    segment: usize,
) -> [S::I; 8] {
    let line = NestedQ8_0::FIELDS.line(RUN);
    let groups = places.groups[0];
    let of_lower = usize::from(live.lower_groups).min(groups);
    // SAFETY: the caller's promise; of the codes the first `4 groups` are read.
    unsafe {
        let upper = places.at.lines.add(run * line + segment * 4 * S::LANES);
        let lower = upper.add(BLOCK * NestedQ8_0::FIELDS.line(places.at.outputs));
        let lines = (&raw const places.lines).cast::<[u32; 4]>();
        let x = (&raw const live.block.codes).cast::<i8>();
        let mut sums = [S::offset(&live.block.minus_pairs, OFFSET); 8];
        for group in 0..groups {
            add::<S>(upper, *lines.add(group), x.add(4 * group), &mut sums);
        }
        for sum in &mut sums {
            *sum = S::shl(*sum, 4);
        }
        for group in 0..of_lower {
            let own = x.add(4 * group);
            let last = (&raw const live.last_lower).cast::<i8>();
            let x = if group + 1 == of_lower { last } else { own };
            add::<S>(lower, *lines.add(group), x, &mut sums);
        }
        sums
    }
}

/// Adds the products of four lines of halves to sums.
///
/// # Safety
/// The lines and the four codes exist, and the instructions of `S`.
#[inline(always)]
unsafe fn add<S: Lines>(from: *const u8, lines: [u32; 4], x: *const i8, sums: &mut [S::I; 8]) {
    // SAFETY: the caller's promise.
    unsafe {
        let both = S::interleave(lines.map(|line| S::load(from.add(line as usize))));
        let mask = S::splat_i(0x0f0f_0f0f);
        for k in 0..4 {
            let codes = [S::and(both[k], mask), S::and(S::shr(both[k], 4), mask)];
            for (half, code) in codes.iter().enumerate() {
                let to = &mut sums[4 * half + k];
                let [[sum]] = S::dot::<1, 1, 1>(Codes::U4, [&raw const *code], [x], [*to]);
                *to = sum;
            }
        }
    }
}
