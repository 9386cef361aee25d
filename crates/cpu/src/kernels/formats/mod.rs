//! The block formats, unpacked into tiles: one function body for all instruction sets.
//!
//! Loops instead of closures throughout: only what is marked `inline(always)` is sure to end up
//! in the function that has the instruction set, and closures cannot be marked.

mod blocks32;
mod k_halves;
mod k_quants;

pub(super) use blocks32::{Iq4Nl, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
pub(super) use k_halves::{Q2K, Q3K, Q6K};
pub(super) use k_quants::{Q4K, Q5K};

use std::cmp::Ordering;

use super::simd::Simd;
use super::tile::Rows;

/// The f16 at `offset` of blocks of `block_bytes` bytes. Four bytes are read, all inside of the
/// block.
///
/// # Safety
/// `block` is a whole block of at least four bytes, and the instructions of `S` exist.
#[inline(always)]
unsafe fn f16_at<S: Simd>(block: Rows, offset: usize, block_bytes: usize) -> S::F {
    // SAFETY: the caller's promise.
    unsafe {
        if offset + 4 <= block_bytes {
            S::f16_to_f32(S::load4(block.at(offset)))
        } else {
            S::f16_to_f32(S::shr(S::load4(block.at(offset - 2)), 16))
        }
    }
}

/// The two neighbouring f16 at `offset` of blocks.
///
/// # Safety
/// They lie inside of `block`, and the instructions of `S` exist.
#[inline(always)]
unsafe fn f16_pair_at<S: Simd>(block: Rows, offset: usize) -> (S::F, S::F) {
    // SAFETY: the caller's promise.
    unsafe {
        let both = S::load4(block.at(offset));
        (S::f16_to_f32(both), S::f16_to_f32(S::shr(both, 16)))
    }
}

/// 32 bytes of codes of each row, as two times `load_codes`.
///
/// # Safety
/// They are readable, and the instructions of `S` exist.
#[inline(always)]
unsafe fn load32<S: Simd>(from: Rows) -> [S::I; 8] {
    // SAFETY: the caller's promise.
    let ([a, b, c, d], [e, f, g, h]) = unsafe { (S::load_codes(from), S::load_codes(from.at(16))) };
    [a, b, c, d, e, f, g, h]
}

/// `width` bits of every byte, from bit `first` on.
///
/// # Safety
/// The instructions of `S` exist.
#[inline(always)]
unsafe fn bits<S: Simd>(bytes: S::I, first: u32, width: u32) -> S::I {
    let mask = ((1 << width) - 1) * 0x0101_0101;
    // SAFETY: the caller's promise.
    unsafe { S::and(if first == 0 { bytes } else { S::shr(bytes, first) }, S::splat_i(mask)) }
}

/// `bits` of eight vectors.
///
/// # Safety
/// The instructions of `S` exist.
#[inline(always)]
unsafe fn bits8<S: Simd>(mut bytes: [S::I; 8], first: u32, width: u32) -> [S::I; 8] {
    for bytes in &mut bytes {
        // SAFETY: the caller's promise.
        *bytes = unsafe { bits::<S>(*bytes, first, width) };
    }
    bytes
}

/// Sets bits from `to` on to the `width` bits of `high` from `first` on, in every byte of eight
/// vectors of codes.
///
/// # Safety
/// The instructions of `S` exist.
#[inline(always)]
unsafe fn with_bits8<S: Simd>(
    mut codes: [S::I; 8],
    high: &[S::I; 8],
    first: u32,
    width: u32,
    to: u32,
) -> [S::I; 8] {
    let mask = (((1 << width) - 1) << to) * 0x0101_0101;
    for (codes, &high) in codes.iter_mut().zip(high) {
        // SAFETY: the caller's promise.
        unsafe {
            let placed = match first.cmp(&to) {
                Ordering::Less => S::shl(high, to - first),
                Ordering::Equal => high,
                Ordering::Greater => S::shr(high, first - to),
            };
            *codes = S::or(*codes, S::and(placed, S::splat_i(mask)));
        }
    }
    codes
}

/// Byte `index` of a vector of four bytes in each lane.
///
/// # Safety
/// The instructions of `S` exist.
#[inline(always)]
unsafe fn byte<S: Simd>(bytes: S::I, index: usize) -> S::I {
    // SAFETY: the caller's promise.
    unsafe { S::and(S::shr(bytes, 8 * index as u32), S::splat_i(0xff)) }
}
