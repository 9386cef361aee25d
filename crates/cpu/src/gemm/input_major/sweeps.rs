//! The product of one row with lines of codes: only those of its live inputs are read.
//!
//! A *sweep* multiplies a group of four lines with all outputs of a slab, so that a line is read
//! from its first byte to its last. The integer sums of a block stay in memory until its last
//! sweep; then its scales are applied.

use std::ops::Range;

use super::coded::{BlockAt, LineSegment, RUN};
use super::layout::line;
use super::lines::Lines;
use super::live::LiveBlock;
use crate::memory::prefetch::{Level, prefetch};

/// Bytes of the lines that lie between those that are prefetched and those that are
/// multiplied, at least.
const BYTES_AHEAD: usize = 8 << 10;
/// The sweeps between them, at least.
const SWEEPS_AHEAD: usize = 2;
/// The mean of the lower halves that are not read.
const MEAN: f32 = 7.5;

/// The lines of a block that a row is multiplied with: of upper halves, and of lower ones.
#[derive(Clone, Copy)]
pub(super) struct Places {
    at: BlockAt,
    /// Bytes from the block's first line to that of each input.
    lines: [u32; 32],
    /// Groups of each half.
    groups: [usize; 2],
}

impl Places {
    /// The lines of `inputs` in the block `at`.
    #[inline(always)]
    pub(super) fn new(at: BlockAt, inputs: &LiveBlock) -> Self {
        let line = line(at.outputs) as u32;
        let lines = std::array::from_fn(|i| u32::from(inputs.lines[i] & 31) * line);
        Self { at, lines, groups: inputs.groups() }
    }

    /// Sweeps of the block.
    #[inline(always)]
    fn sweeps(&self) -> usize {
        self.groups[0] + self.groups[1]
    }

    /// The half of a sweep, and its group of inputs.
    #[inline(always)]
    fn group(&self, sweep: usize) -> (usize, usize) {
        match sweep.checked_sub(self.groups[0]) {
            Some(group) => (1, group),
            None => (0, sweep),
        }
    }

    /// Prefetches the lines of a run for some sweeps.
    #[inline(always)]
    fn prefetch_lines(&self, sweeps: Range<usize>, run: usize) {
        let lines = self.lines.as_chunks::<4>().0;
        for sweep in sweeps.start..sweeps.end.min(self.sweeps()) {
            let (half, group) = self.group(sweep);
            let from = self.at.first_line(half).wrapping_add(run * line(RUN));
            for of in lines[group & 7] {
                for byte in (0..line(RUN)).step_by(64) {
                    prefetch(from.wrapping_add(of as usize + byte), Level::First);
                }
            }
        }
    }

    /// Prefetches the scales of a run.
    #[inline(always)]
    fn prefetch_scales(&self, run: usize) {
        for byte in (0..2 * RUN).step_by(64) {
            prefetch(self.at.scales.wrapping_add(run * 2 * RUN + byte), Level::First);
        }
    }
}

/// Adds the products of a block's inputs with the runs `runs` of outputs to their sums, and
/// prefetches the lines of `next`.
///
/// # Safety
/// The block exists, the instructions of `S` too, and `sums` has a value for each output of the
/// runs, from the first on; `integers` has two.
#[inline(always)]
pub(super) unsafe fn one_block<S: Lines>(
    places: &Places,
    inputs: &LiveBlock,
    runs: Range<usize>,
    [sums, integers]: [*mut f32; 2],
    next: Option<&Places>,
) {
    let all = places.sweeps();
    let ahead = (BYTES_AHEAD / (4 * line(RUN * runs.len()))).max(SWEEPS_AHEAD);
    let halves = [integers, integers.wrapping_add(runs.len() * RUN)];
    for (half, to) in halves.iter().enumerate() {
        if places.groups[half] > 0 {
            continue;
        }
        for vector in 0..runs.len() * RUN / S::LANES {
            // SAFETY: the caller's promise.
            unsafe {
                let start = S::start_of_nibbles(-inputs.sum_of(half));
                S::store(S::f32_of_bits(start), to.add(vector * S::LANES));
            }
        }
    }
    for sweep in 0..all {
        let (half, group) = places.group(sweep);
        let later = sweep + ahead;
        let (of, later) = if all < ahead {
            let of_next = next.map_or(0, Places::sweeps);
            (next, sweep * of_next / all..(sweep + 1) * of_next / all)
        } else if later < all {
            (Some(places), later..later + 1)
        } else {
            (next, later - all..later - all + 1)
        };
        let is_last_lower = half == 1 && group + 1 == places.groups[1];
        // SAFETY: the caller's promise; of the activations the first groups are read.
        unsafe {
            let x = match is_last_lower {
                true => inputs.last_lower,
                false => (&raw const inputs.codes).cast::<[i8; 4]>().add(group).read(),
            };
            let is_first = sweep == if half == 0 { 0 } else { places.groups[0] };
            let start = is_first.then(|| S::start_of_nibbles(-inputs.sum_of(half)));
            let mut to = halves[half];
            for run in runs.clone() {
                if let Some(of) = of {
                    of.prefetch_lines(later.clone(), run);
                }
                if let Some(next) = next.filter(|_| sweep == 0) {
                    next.prefetch_scales(run);
                }
                for segment in 0..LineSegment::<S>::COUNT {
                    add::<S>(places, (half, group), &x, run, segment, start, to);
                    to = to.add(LineSegment::<S>::VECTORS * S::LANES);
                }
            }
        }
    }
    // SAFETY: the caller's promise.
    unsafe { scale::<S>(&places.at, inputs, runs, sums, halves) }
}

/// Adds the integer products of a segment of four lines to their sums, or to `start`.
///
/// # Safety
/// As for [`one_block`].
#[inline(always)]
unsafe fn add<S: Lines>(
    places: &Places,
    (half, group): (usize, usize),
    x: &[i8; 4],
    run: usize,
    segment: usize,
    start: Option<S::I>,
    to: *mut f32,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [start.unwrap_or(S::splat_i(0)); 8];
        if start.is_none() {
            for (i, sum) in sums[..S::SUMS_OF_NIBBLES].iter_mut().enumerate() {
                *sum = S::load(to.add(i * S::LANES).cast_const().cast());
            }
        }
        let from = places.at.first_line(half).add(LineSegment::<S>::place(run, segment));
        let [a, b, c, d] = places.lines.as_chunks::<4>().0[group & 7];
        let line = |line: u32| from.add(line as usize);
        let lines = [S::load(line(a)), S::load(line(b)), S::load(line(c)), S::load(line(d))];
        S::add_nibbles(lines, x, &mut sums);
        for (i, sum) in sums[..S::SUMS_OF_NIBBLES].iter().enumerate() {
            S::store(S::f32_of_bits(*sum), to.add(i * S::LANES));
        }
    }
}

/// The integer sums of a half of a segment, in the order of [`LineSegment::output`].
///
/// # Safety
/// As for [`one_block`]; `from` are the half's sums of the segment.
#[inline(always)]
unsafe fn found<S: Lines>(from: *const f32, inputs: &LiveBlock, half: usize) -> [S::I; 8] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [S::splat_i(0); 8];
        for (i, sum) in sums.iter_mut().enumerate() {
            *sum = S::load(from.add(i * S::LANES).cast());
        }
        sums = S::widen_nibbles(sums);
        if half == 1 {
            // those are sums with lower halves less 8
            let rest = S::splat_i(inputs.sum_of(half) << 3);
            for sum in &mut sums {
                *sum = S::add_i(*sum, rest);
            }
        }
        sums
    }
}

/// Adds the integer sums of a block, scaled, to the sums of the outputs. They are exact in f32, so
/// that a row with all halves gets the results of Q8_0.
///
/// # Safety
/// As for [`one_block`].
#[inline(always)]
unsafe fn scale<S: Lines>(
    at: &BlockAt,
    inputs: &LiveBlock,
    runs: Range<usize>,
    sums: *mut f32,
    halves: [*mut f32; 2],
) {
    let left_out = MEAN * inputs.left_out as f32;
    let mut place = 0;
    // SAFETY: the caller's promise.
    unsafe {
        for run in runs.clone() {
            for segment in 0..LineSegment::<S>::COUNT {
                let [upper, lower] =
                    [0, 1].map(|half| found::<S>(halves[half].add(place), inputs, half));
                for vector in 0..LineSegment::<S>::VECTORS {
                    let output = LineSegment::<S>::output(segment, vector);
                    let to = sums.add((run - runs.start) * RUN + output);
                    let codes = S::to_f32(S::add_i(S::shl(upper[vector], 4), lower[vector]));
                    let codes = S::fma(codes, S::splat(1.0), S::splat(left_out));
                    let product = S::mul(codes, at.scale::<S>(run * RUN + output));
                    let sum = S::load_f32(to.cast_const().cast());
                    S::store(S::fma(product, S::splat(inputs.scale), sum), to);
                }
                place += LineSegment::<S>::VECTORS * S::LANES;
            }
        }
    }
}
