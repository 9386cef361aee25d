//! The product of one row with lines of codes: only those of its live inputs are read.
//!
//! A *sweep* multiplies a group of four lines with all outputs of a slab, so that a line is read from its
//! first byte to its last. The integer sums of a block stay in memory until its last sweep; then its
//! scales are applied.

use std::ops::Range;

use super::super::tile::Coding;
use super::super::vectors::Codes;
use super::coded::{BlockAt, Coded, LineSegment, RUN};
use super::lines::Lines;
use super::live::{LiveBlock, Lower};
use super::nested;
use crate::memory::prefetch::{Level, prefetch};

/// Bytes of the lines that lie between those that are prefetched and those that are multiplied, at least.
const BYTES_AHEAD: usize = 8 << 10;
/// The sweeps between them, at least.
const SWEEPS_AHEAD: usize = 2;

/// The lines of a block that a row is multiplied with, in two parts. The parts are the two halves
/// of a block that has scales for each, upper and lower halves of codes, or all and none.
#[derive(Clone, Copy)]
pub(super) struct Places {
    at: BlockAt,
    /// Bytes from the block's first line to that of each input.
    lines: [u32; 32],
    /// Groups of each part.
    groups: [usize; 2],
}

impl Places {
    /// The lines of `inputs` in the block `at`.
    #[inline(always)]
    pub(super) fn new<K: Coded>(at: BlockAt, inputs: &LiveBlock) -> Self {
        let line = K::FIELDS.line(at.outputs) as u32;
        let lines = std::array::from_fn(|i| u32::from(inputs.lines[i] & 31) * line);
        let mut groups = inputs.groups();
        if K::NESTED {
            groups[1] = inputs.lower().groups;
        }
        Self { at, lines, groups }
    }

    /// Sweeps of the block.
    #[inline(always)]
    fn sweeps(&self) -> usize {
        self.groups[0] + self.groups[1]
    }

    /// The part of a sweep, and its group of inputs.
    #[inline(always)]
    fn group<K: Coded>(&self, sweep: usize) -> (usize, usize) {
        match sweep.checked_sub(self.groups[0]) {
            Some(group) if K::NESTED => (1, group),
            Some(_) => (1, sweep),
            None => (0, sweep),
        }
    }

    /// The first line of a part.
    #[inline(always)]
    fn first_line<K: Coded>(&self, part: usize) -> *const u8 {
        let lower = if K::NESTED && part == 1 { 32 * K::FIELDS.line(self.at.outputs) } else { 0 };
        self.at.lines.wrapping_add(lower)
    }

    /// Prefetches the lines of a run for some sweeps.
    #[inline(always)]
    fn prefetch_lines<K: Coded>(&self, sweeps: Range<usize>, run: usize) {
        let (fields, lines) = (&K::FIELDS, self.lines.as_chunks::<4>().0);
        for sweep in sweeps.start..sweeps.end.min(self.sweeps()) {
            let (part, group) = self.group::<K>(sweep);
            let of_run = fields.line(RUN);
            let from = self.first_line::<K>(part).wrapping_add(run * of_run);
            for line in lines[group & 7] {
                for byte in (0..of_run).step_by(64) {
                    prefetch(from.wrapping_add(line as usize + byte), Level::First);
                }
            }
            // several runs of upper bits are in a cache line
            let of_run = fields.upper(RUN);
            if !K::NESTED && of_run > 0 && (run * of_run).is_multiple_of(64) {
                let upper = 32 * fields.line(self.at.outputs) + run * of_run;
                for line in lines[group & 7] {
                    let line = line as usize * fields.upper_bits / fields.line_bits;
                    prefetch(self.at.lines.wrapping_add(upper + line), Level::First);
                }
            }
        }
    }

    /// Prefetches the fields of a run.
    #[inline(always)]
    fn prefetch_fields<K: Coded>(&self, run: usize) {
        // fields of two bytes lie 256 bytes a run apart, others 128
        for byte in (0..K::FIELDS.block_head * RUN).step_by(64) {
            let field = byte / (2 * RUN);
            let from = field * 2 * self.at.outputs + run * 2 * RUN + byte % (2 * RUN);
            prefetch(self.at.fields.wrapping_add(from), Level::First);
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
pub(super) unsafe fn one_block<S: Lines, K: Coded>(
    places: &Places,
    inputs: &LiveBlock,
    runs: Range<usize>,
    [sums, integers]: [*mut f32; 2],
    next: Option<&Places>,
) {
    let (all, block, lower) = (places.sweeps(), &inputs.block, inputs.lower());
    let ahead = (BYTES_AHEAD / (4 * K::FIELDS.line(RUN * runs.len()))).max(SWEEPS_AHEAD);
    let parts = [integers, integers.wrapping_add(runs.len() * RUN)];
    let used = if K::Coding::HALVES || K::NESTED { 2 } else { 1 };
    for (part, to) in parts.iter().enumerate().take(used) {
        if places.groups[part] > 0 {
            continue;
        }
        for vector in 0..runs.len() * RUN / S::LANES {
            // SAFETY: the caller's promise.
            unsafe {
                let start = S::f32_of_bits(start::<S, K>(inputs, part));
                S::store(start, to.add(vector * S::LANES));
            }
        }
    }
    for sweep in 0..all {
        let (part, group) = places.group::<K>(sweep);
        let later = sweep + ahead;
        let (of, later) = if all < ahead {
            let of_next = next.map_or(0, Places::sweeps);
            (next, sweep * of_next / all..(sweep + 1) * of_next / all)
        } else if later < all {
            (Some(places), later..later + 1)
        } else {
            (next, later - all..later - all + 1)
        };
        let is_last_lower = K::NESTED && part == 1 && group + 1 == lower.groups;
        // SAFETY: the caller's promise; of the activations the first groups are read.
        unsafe {
            let x = match is_last_lower {
                true => lower.last,
                false => (&raw const block.codes).cast::<[i8; 4]>().add(group).read(),
            };
            let is_first = sweep == if part == 0 { 0 } else { places.groups[0] };
            let start = is_first.then(|| start::<S, K>(inputs, part));
            let mut to = parts[part];
            for run in runs.clone() {
                if let Some(of) = of {
                    of.prefetch_lines::<K>(later.clone(), run);
                }
                if let Some(next) = next.filter(|_| sweep == 0) {
                    next.prefetch_fields::<K>(run);
                }
                for segment in 0..LineSegment::<S, K>::COUNT {
                    add::<S, K>(places, (part, group), &x, run, segment, start, to);
                    to = to.add(LineSegment::<S, K>::VECTORS * S::LANES);
                }
            }
        }
    }
    // SAFETY: the caller's promise.
    unsafe { scale::<S, K>(&places.at, inputs, runs, sums, parts) }
}

/// The start of the integer sums of a part: the offset of the codes.
///
/// # Safety
/// The instructions of `S` exist.
#[inline(always)]
unsafe fn start<S: Lines, K: Coded>(inputs: &LiveBlock, part: usize) -> S::I {
    let block = &inputs.block;
    // SAFETY: the caller's promise.
    unsafe {
        if LineSegment::<S, K>::PLAIN {
            return S::start_of_nibbles(-codes::<K>(inputs, part));
        }
        let zero = match K::Coding::CODES {
            Codes::I8 => S::I8_ZERO,
            _ => K::Coding::ZERO,
        };
        let minus = match K::Coding::HALVES {
            true => &block.minus_half_pairs[part],
            false => &block.minus_pairs,
        };
        zero.map_or(S::splat_i(0), |zero| S::offset(minus, zero))
    }
}

/// The sum of the codes of the activations of a part, which has no halves.
#[inline(always)]
fn codes<K: Coded>(inputs: &LiveBlock, part: usize) -> i32 {
    let [even, odd] = inputs.block.minus_pairs.map(i32::from);
    let left_out = if K::NESTED && part == 1 { inputs.lower().left_out } else { 0 };
    -even - odd - left_out
}

/// Adds the integer products of a segment of four lines to their sums, or to `start`.
///
/// # Safety
/// As for [`one_block`].
#[inline(always)]
unsafe fn add<S: Lines, K: Coded>(
    places: &Places,
    (part, group): (usize, usize),
    x: &[i8; 4],
    run: usize,
    segment: usize,
    start: Option<S::I>,
    to: *mut f32,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let lines = places.lines.as_chunks::<4>().0[group & 7];
        let count = if LineSegment::<S, K>::PLAIN {
            S::SUMS_OF_NIBBLES
        } else {
            LineSegment::<S, K>::VECTORS
        };
        let mut sums = [start.unwrap_or(S::splat_i(0)); 8];
        if start.is_none() {
            for (i, sum) in sums[..count].iter_mut().enumerate() {
                *sum = S::load(to.add(i * S::LANES).cast_const().cast());
            }
        }
        if LineSegment::<S, K>::PLAIN {
            let from = places.first_line::<K>(part).add(LineSegment::<S, K>::place(run, segment));
            let [a, b, c, d] = lines;
            let line = |line: u32| from.add(line as usize);
            let lines = [S::load(line(a)), S::load(line(b)), S::load(line(c)), S::load(line(d))];
            S::add_nibbles(lines, x, &mut sums);
        } else if !LineSegment::<S, K>::NIBBLES {
            let from = places.at.lines.add(LineSegment::<S, K>::place(run, segment));
            let [a, b, c, d] = lines;
            let line = |line: u32| from.add(line as usize);
            let lines = [S::load(line(a)), S::load(line(b)), S::load(line(c)), S::load(line(d))];
            add_bytes::<S>(K::Coding::CODES, lines, x, &mut sums);
        } else {
            let codes = LineSegment::<S, K>::codes(&places.at, lines, run, segment);
            for k in 0..8 {
                let sum = &mut sums[k];
                let code = &raw const codes[k];
                [[*sum]] = S::dot::<1, 1, 1>(K::Coding::CODES, [code], [x.as_ptr()], [*sum]);
            }
        }
        for (i, sum) in sums[..count].iter().enumerate() {
            S::store(S::f32_of_bits(*sum), to.add(i * S::LANES));
        }
    }
}

/// Adds the products of four activations with the bytes of four lines to the first four sums. Indices that are
/// known keep the vectors in registers.
///
/// # Safety
/// The instructions of `S` exist.
#[inline(always)]
unsafe fn add_bytes<S: Lines>(codes: Codes, lines: [S::I; 4], x: &[i8; 4], sums: &mut [S::I; 8]) {
    // SAFETY: the caller's promise.
    unsafe {
        let all = S::interleave(lines);
        for k in 0..4 {
            let code = S::from_i8(all[k]);
            let sum = &mut sums[k];
            [[*sum]] = S::dot::<1, 1, 1>(codes, [&raw const code], [x.as_ptr()], [*sum]);
        }
    }
}

/// The integer sums of a part of a segment, in the order of [`LineSegment::output`].
///
/// # Safety
/// As for [`one_block`]; `from` are the part's sums of the segment.
#[inline(always)]
unsafe fn found<S: Lines, K: Coded>(
    from: *const f32,
    inputs: &LiveBlock,
    part: usize,
) -> [S::I; 8] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [S::splat_i(0); 8];
        for (i, sum) in sums[..LineSegment::<S, K>::VECTORS].iter_mut().enumerate() {
            *sum = S::load(from.add(i * S::LANES).cast());
        }
        if LineSegment::<S, K>::PLAIN {
            sums = S::widen_nibbles(sums);
            // those are sums with codes less 8
            if K::Coding::ZERO.is_none() && !(K::NESTED && part == 0) {
                let rest = S::splat_i(codes::<K>(inputs, part) << 3);
                for sum in &mut sums {
                    *sum = S::add_i(*sum, rest);
                }
            }
        }
        sums
    }
}

/// Adds the integer sums of a block, scaled, to the sums of the outputs.
///
/// # Safety
/// As for [`one_block`].
#[inline(always)]
unsafe fn scale<S: Lines, K: Coded>(
    at: &BlockAt,
    inputs: &LiveBlock,
    runs: Range<usize>,
    sums: *mut f32,
    parts: [*mut f32; 2],
) {
    let (block, Lower { left_out, .. }) = (&inputs.block, inputs.lower());
    let vectors = LineSegment::<S, K>::VECTORS;
    let mut place = 0;
    // SAFETY: the caller's promise.
    unsafe {
        for run in runs.clone() {
            for segment in 0..LineSegment::<S, K>::COUNT {
                let first = found::<S, K>(parts[0].add(place), inputs, 0);
                let second = match K::Coding::HALVES || K::NESTED {
                    true => found::<S, K>(parts[1].add(place), inputs, 1),
                    false => first,
                };
                for vector in 0..vectors {
                    let output = LineSegment::<S, K>::output(segment, vector);
                    let [scale, min] = K::scales::<S>(at, run * RUN + output);
                    let to = sums.add((run - runs.start) * RUN + output);
                    let product = if K::NESTED {
                        S::mul(nested::join::<S>(first[vector], second[vector], left_out), scale[0])
                    } else if K::Coding::HALVES {
                        let product = S::mul(S::to_f32(first[vector]), scale[0]);
                        S::fma(S::to_f32(second[vector]), scale[1], product)
                    } else {
                        S::mul(S::to_f32(first[vector]), scale[0])
                    };
                    let sum = S::load_f32(to.cast_const().cast());
                    let mut sum = S::fma(product, S::splat(block.scale), sum);
                    if K::Coding::MIN {
                        sum = S::fma(min[0], S::splat(block.sum), sum);
                    }
                    S::store(sum, to);
                }
                place += vectors * S::LANES;
            }
        }
    }
}
