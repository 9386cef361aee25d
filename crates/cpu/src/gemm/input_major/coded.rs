//! The formats that are kept in lines: their codes, scales and minima.

use std::marker::PhantomData;

use super::super::formats::{Q4_0, Q4_1, Q4K, Q5K, Q6K, Q8_0};
use super::super::tile::{Coding, Format};
use super::layout::Fields;
use super::lines::Lines;

/// Outputs that a kernel computes at a time.
pub(super) const RUN: usize = 128;

/// A format whose codes are kept in lines.
pub(super) trait Coded {
    type Coding: Coding;
    const FIELDS: Fields;
    /// Whether lines are those of halves of codes (`nested.rs`).
    const NESTED: bool = false;

    /// The scales and minima of `LANES` outputs from output `output` of a slab on, for each half if
    /// the halves are separate.
    ///
    /// # Safety
    /// The place is one of the outputs, and the instructions of `S` exist.
    unsafe fn scales<S: Lines>(at: &BlockAt, output: usize) -> [[S::F; 2]; 2];
}

/// The place of a block of 32 inputs in a slab.
#[derive(Clone, Copy)]
pub(super) struct BlockAt {
    /// The fields of its super-block.
    pub(super) head: *const u8,
    /// Its own fields.
    pub(super) fields: *const u8,
    /// Its lines.
    pub(super) lines: *const u8,
    /// Outputs of the slab.
    pub(super) outputs: usize,
}

impl BlockAt {
    /// Block `block` of the slab at `slab`.
    ///
    /// # Safety
    /// There is such a block.
    #[inline(always)]
    pub(super) unsafe fn new<K: Coded>(slab: *const u8, outputs: usize, block: usize) -> Self {
        let fields = &K::FIELDS;
        let blocks = fields.inputs / 32;
        // SAFETY: the caller's promise.
        unsafe {
            let head = slab.add(block / blocks * fields.super_block(outputs));
            let own = head.add(fields.super_head * outputs);
            let own = own.add(block % blocks * fields.block(outputs));
            Self { head, fields: own, lines: own.add(fields.block_head * outputs), outputs }
        }
    }
}

/// Implements `Coded` for blocks of 32 with a scale, and perhaps a minimum, in f16.
macro_rules! simple {
    ($name:ident, min: $min:literal) => {
        impl Coded for $name {
            type Coding = <Self as Format>::Coding;
            const FIELDS: Fields = fields_of::<Self>();

            #[inline(always)]
            unsafe fn scales<S: Lines>(at: &BlockAt, output: usize) -> [[S::F; 2]; 2] {
                // SAFETY: the caller's promise.
                unsafe {
                    let scale = S::load_f16(at.fields.add(2 * output));
                    let min = match $min {
                        true => S::load_f16(at.fields.add(2 * (at.outputs + output))),
                        false => S::splat(0.0),
                    };
                    [[scale; 2], [min; 2]]
                }
            }
        }
    };
}

/// The fields of a format.
const fn fields_of<F: Format>() -> Fields {
    match Fields::of(F::DTYPE) {
        Some(fields) => fields,
        None => Fields { inputs: 32, super_head: 0, block_head: 0, line_bits: 8, upper_bits: 0 },
    }
}

/// Q8_0 with the halves of its codes apart.
pub(super) struct NestedQ8_0;

impl Coded for NestedQ8_0 {
    type Coding = <Q8_0 as Format>::Coding;
    const FIELDS: Fields = Fields::NESTED;
    const NESTED: bool = true;

    #[inline(always)]
    unsafe fn scales<S: Lines>(at: &BlockAt, output: usize) -> [[S::F; 2]; 2] {
        // SAFETY: the caller's promise.
        unsafe { <Q8_0 as Coded>::scales::<S>(at, output) }
    }
}

simple!(Q4_0, min: false);
simple!(Q4_1, min: true);
simple!(Q8_0, min: false);

/// Implements `Coded` for super-blocks of 256 with scales and minima of six bits.
macro_rules! with_mins {
    ($name:ident) => {
        impl Coded for $name {
            type Coding = <Self as Format>::Coding;
            const FIELDS: Fields = fields_of::<Self>();

            #[inline(always)]
            unsafe fn scales<S: Lines>(at: &BlockAt, output: usize) -> [[S::F; 2]; 2] {
                // SAFETY: the caller's promise.
                unsafe {
                    let d = S::load_f16(at.head.add(2 * output));
                    let dmin = S::load_f16(at.head.add(2 * (at.outputs + output)));
                    let scale = S::u8_to_f32(at.fields.add(output));
                    let min = S::u8_to_f32(at.fields.add(at.outputs + output));
                    let min = S::mul(S::mul(dmin, S::splat(-1.0)), min);
                    [[S::mul(d, scale); 2], [min; 2]]
                }
            }
        }
    };
}

with_mins!(Q4K);
with_mins!(Q5K);

impl Coded for Q6K {
    type Coding = <Self as Format>::Coding;
    const FIELDS: Fields = fields_of::<Self>();

    #[inline(always)]
    unsafe fn scales<S: Lines>(at: &BlockAt, output: usize) -> [[S::F; 2]; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            let d = S::load_f16(at.head.add(2 * output));
            let first = S::i8_to_f32(at.fields.add(output));
            let second = S::i8_to_f32(at.fields.add(at.outputs + output));
            [[S::mul(d, first), S::mul(d, second)], [S::splat(0.0); 2]]
        }
    }
}

/// A vector of each of four lines, which are so many bytes after `from`.
///
/// # Safety
/// The lines exist, and the instructions of `S` too.
#[inline(always)]
unsafe fn load_lines<S: Lines>(from: *const u8, lines: [u32; 4]) -> [S::I; 4] {
    let [a, b, c, d] = lines;
    // SAFETY: the caller's promise.
    unsafe {
        [
            S::load(from.add(a as usize)),
            S::load(from.add(b as usize)),
            S::load(from.add(c as usize)),
            S::load(from.add(d as usize)),
        ]
    }
}

/// The lines of a run of outputs.
pub(super) struct LineSegment<S, K>(PhantomData<(S, K)>);

impl<S: Lines, K: Coded> LineSegment<S, K> {
    /// Whether lines have four bits for each output, or those and more.
    pub(super) const NIBBLES: bool = K::FIELDS.line_bits == 4;
    /// Vectors of codes that a segment of lines gives.
    pub(super) const VECTORS: usize = if Self::NIBBLES { 8 } else { 4 };
    /// Whether lines have four bits for each output and nothing else.
    pub(super) const PLAIN: bool = Self::NIBBLES && (K::FIELDS.upper_bits == 0 || K::NESTED);
    /// Segments of a run.
    pub(super) const COUNT: usize = RUN / (Self::VECTORS * S::LANES);

    /// The first output of vector `vector` of segment `segment` of a run.
    #[inline(always)]
    pub(super) const fn output(segment: usize, vector: usize) -> usize {
        // segments of 64 bytes
        let of_chunk = 16 / S::LANES;
        let (chunk, within) = (segment / of_chunk, segment % of_chunk);
        if Self::NIBBLES {
            chunk * 128 + vector / 4 * 64 + vector % 4 * 16 + within * S::LANES
        } else {
            chunk * 64 + vector * 16 + within * S::LANES
        }
    }

    /// The byte of a line at which a segment of a run begins.
    #[inline(always)]
    pub(super) const fn place(run: usize, segment: usize) -> usize {
        run * K::FIELDS.line(RUN) + segment * 4 * S::LANES
    }

    /// The codes of four inputs, whose lines are so many bytes after the first of a block: vector
    /// `v` holds those of the outputs from `output(segment, v)` of run `run` on.
    ///
    /// # Safety
    /// The lines exist, and the instructions of `S` too.
    #[inline(always)]
    pub(super) unsafe fn codes(
        at: &BlockAt,
        lines: [u32; 4],
        run: usize,
        segment: usize,
    ) -> [S::I; 8] {
        let fields = &K::FIELDS;
        // SAFETY: the caller's promise.
        unsafe {
            let from = at.lines.add(Self::place(run, segment));
            let both = S::interleave(load_lines::<S>(from, lines));
            let mut codes = [S::splat_i(0); 8];
            if !Self::NIBBLES {
                for (to, codes_of) in codes.iter_mut().zip(both) {
                    *to = S::from_i8(codes_of);
                }
                return codes;
            }
            if fields.upper_bits == 4 {
                let from = from.add(32 * fields.line(at.outputs));
                let lower = S::interleave(load_lines::<S>(from, lines));
                let (mask, upper_mask) = (S::splat_i(0x0f0f_0f0f), S::splat_i(-0x0f0f_0f10));
                let sign = S::splat_i(-0x7f7f_7f80);
                for k in 0..4 {
                    let low = S::or(S::and(S::shl(both[k], 4), upper_mask), S::and(lower[k], mask));
                    let high = S::and(S::shr(lower[k], 4), mask);
                    let high = S::or(S::and(both[k], upper_mask), high);
                    codes[k] = S::from_i8(S::xor(low, sign));
                    codes[4 + k] = S::from_i8(S::xor(high, sign));
                }
                return codes;
            }
            let mask = S::splat_i(0x0f0f_0f0f);
            for k in 0..4 {
                codes[k] = S::and(both[k], mask);
                codes[4 + k] = S::and(S::shr(both[k], 4), mask);
            }
            if fields.upper_bits > 0 {
                let bits = fields.upper_bits;
                let from = at.lines.add(32 * fields.line(at.outputs) + run * fields.upper(RUN));
                let mut uppers = [S::splat_i(0); 4];
                for (upper, line) in uppers.iter_mut().zip(lines) {
                    *upper = match bits {
                        1 => S::upper::<1>(from.add(line as usize / 4), segment),
                        _ => S::upper::<2>(from.add(line as usize / 2), segment),
                    };
                }
                let uppers = S::interleave(uppers);
                let mask = S::splat_i(if bits == 1 { 0x1010_1010 } else { 0x3030_3030 });
                for k in 0..4 {
                    codes[k] = S::or(codes[k], S::and(S::shl(uppers[k], 4), mask));
                    let high = S::shl(uppers[k], 4 - bits as u32);
                    codes[4 + k] = S::or(codes[4 + k], S::and(high, mask));
                }
            }
            codes
        }
    }
}
