//! Products of a row of floats with the lines of its live inputs.

use super::coded::RUN;
use super::layout::OUTPUT_ALIGN;
use super::lines::Lines;
use super::live::LiveColumn;
use crate::memory::prefetch::{Level, prefetch};

/// Partial sums of a result in decoding.
pub(super) const PARTIAL: usize = 16;
/// Live inputs between a prefetch and its use.
const LEAD: usize = 12;

/// An element type of lines.
pub(super) trait Column {
    const BYTES: usize;

    /// Loads `LANES` elements.
    ///
    /// # Safety
    /// They are readable, and the instructions of `S` exist.
    unsafe fn load<S: Lines>(from: *const u8) -> S::F;
}

/// IEEE 754 binary16.
pub(super) struct F16;
/// The upper halves of f32.
pub(super) struct BF16;
/// f32.
pub(super) struct F32;

macro_rules! column {
    ($name:ident, $bytes:literal, $load:ident) => {
        impl Column for $name {
            const BYTES: usize = $bytes;

            #[inline(always)]
            unsafe fn load<S: Lines>(from: *const u8) -> S::F {
                // SAFETY: the caller's promise.
                unsafe { S::$load(from) }
            }
        }
    };
}

column!(F16, 2, load_f16);
column!(BF16, 2, load_bf16);
column!(F32, 4, load_f32);

/// Adds the products of the live inputs of a chunk with outputs of a slab to their totals. The sum
/// of a chunk comes first, as in the products of rows of matrices.
///
/// # Safety
/// The lines exist at `lines`, `stride` bytes apart, of at least `outputs` elements, a multiple of
/// [`OUTPUT_ALIGN`]. There are as many totals, and the instructions of `S` exist.
#[inline(always)]
pub(super) unsafe fn one_chunk<S: Lines, E: Column>(
    lines: *const u8,
    stride: usize,
    outputs: usize,
    live: &[LiveColumn],
    totals: *mut f32,
) {
    let width = 8 * S::LANES;
    const { assert!(OUTPUT_ALIGN.is_multiple_of(8 * 16)) };
    // SAFETY: the caller's promise.
    unsafe {
        for output in (0..outputs).step_by(width) {
            let from = lines.add(output * E::BYTES);
            let mut sums = [S::splat(0.0); 8];
            for (i, column) in live.iter().enumerate() {
                if let Some(later) = live.get(i + LEAD) {
                    let line = from.wrapping_add(later.input as usize * stride);
                    for byte in (0..width * E::BYTES).step_by(64) {
                        prefetch(line.wrapping_add(byte), Level::First);
                    }
                }
                let (line, x) = (from.add(column.input as usize * stride), S::splat(column.x));
                for (v, sum) in sums.iter_mut().enumerate() {
                    *sum = S::fma(E::load::<S>(line.add(v * S::LANES * E::BYTES)), x, *sum);
                }
            }
            add_totals::<S>(sums, totals.add(output));
        }
    }
}

/// Adds the products of some columns with a run of [`RUN`] outputs to 16 partial sums of each `[16,
/// RUN]`. The products of an input go to the sum of its index modulo 16, as in the products of
/// decoding.
///
/// # Safety
/// The lines exist at `lines`, `stride` bytes apart, of at least `RUN` elements; there are as many
/// partial sums, and the instructions of `S` exist.
#[inline(always)]
pub(super) unsafe fn add_to_lanes<S: Lines, E: Column>(
    lines: *const u8,
    stride: usize,
    columns: &[LiveColumn],
    partial: *mut f32,
) {
    // SAFETY: the caller's promise.
    unsafe {
        for (i, column) in columns.iter().enumerate() {
            if let Some(later) = columns.get(i + LEAD) {
                let line = lines.wrapping_add(later.input as usize * stride);
                for byte in (0..RUN * E::BYTES).step_by(64) {
                    prefetch(line.wrapping_add(byte), Level::First);
                }
            }
            let (line, x) = (lines.add(column.input as usize * stride), S::splat(column.x));
            let to = partial.add(column.input as usize % PARTIAL * RUN);
            for output in (0..RUN).step_by(S::LANES) {
                let sum = S::load_f32(to.add(output).cast_const().cast());
                let sum = S::fma(E::load::<S>(line.add(output * E::BYTES)), x, sum);
                S::store(sum, to.add(output));
            }
        }
    }
}

/// Adds the partial sums of a run of outputs to the first of them: halves onto halves, down to one.
///
/// # Safety
/// As for [`add_to_lanes`].
#[inline(always)]
pub(super) unsafe fn sum_lanes<S: Lines>(partial: *mut f32) {
    let mut half = PARTIAL / 2;
    while half > 0 {
        for i in (0..half * RUN).step_by(S::LANES) {
            // SAFETY: the caller's promise.
            unsafe {
                let to = partial.add(i);
                let upper = S::load_f32(partial.add(half * RUN + i).cast_const().cast());
                let sum = S::fma(S::load_f32(to.cast_const().cast()), S::splat(1.0), upper);
                S::store(sum, to);
            }
        }
        half /= 2;
    }
}

/// # Safety
/// There are as many totals, and the instructions of `S` exist.
#[inline(always)]
unsafe fn add_totals<S: Lines>(sums: [S::F; 8], totals: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe {
        for (v, sum) in sums.into_iter().enumerate() {
            let to = totals.add(v * S::LANES);
            // the sum of two values is their fused product with 1
            let total = S::fma(sum, S::splat(1.0), S::load_f32(to.cast_const().cast()));
            S::store(total, to);
        }
    }
}
