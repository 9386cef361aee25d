//! Nested codes of eight bits: of an input nothing is read, or the upper halves of its codes, or both.
//!
//! A code is 16 u + l, with u from -8 to 7 and l from 0 to 15. Where l is not read it counts as its mean
//! of 7.5. Sums of a block are exact in f32, so that a row with all halves gets the results of Q8_0.

use super::lines::Lines;

/// The mean of the lower halves that are not read.
const MEAN: f32 = 7.5;

/// The sums of products with codes, from those with their upper and their lower halves, where `left_out` is
/// the sum of the activations of which lower halves are left out.
///
/// # Safety
/// The instructions of `S` exist.
#[inline(always)]
pub(super) unsafe fn join<S: Lines>(upper: S::I, lower: S::I, left_out: i32) -> S::F {
    // SAFETY: the caller's promise.
    unsafe {
        let sum = S::to_f32(S::add_i(S::shl(upper, 4), lower));
        S::fma(sum, S::splat(1.0), S::splat(MEAN * left_out as f32))
    }
}
