//! The fields of blocks: halves, bytes and bits in every lane.

use std::cmp::Ordering;

use super::super::vectors::{Rows, Vectors};

/// The f16 at `offset` of blocks of `block_bytes` bytes: in packed rows a unit of its own, else
/// four bytes are read, all inside of the block.
///
/// # Safety
/// `block` is a whole block of at least four bytes, and the instructions of `S` exist.
#[inline(always)]
pub(super) unsafe fn f16_at<S: Vectors>(block: Rows, offset: usize, block_bytes: usize) -> S::F {
    // SAFETY: the caller's promise.
    unsafe {
        if block.packed > 0 {
            return S::load_f16(block.at(offset).first);
        }
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
pub(super) unsafe fn f16_pair_at<S: Vectors>(block: Rows, offset: usize) -> (S::F, S::F) {
    // SAFETY: the caller's promise.
    unsafe {
        let [first, second] = S::f16_pairs(S::load4(block.at(offset)));
        (first, second)
    }
}

/// 32 bytes of codes of each row, as two times `load_codes`.
///
/// # Safety
/// They are readable, and the instructions of `S` exist.
#[inline(always)]
pub(super) unsafe fn load32<S: Vectors>(from: Rows) -> [S::I; 8] {
    // SAFETY: the caller's promise.
    let ([a, b, c, d], [e, f, g, h]) = unsafe { (S::load_codes(from), S::load_codes(from.at(16))) };
    [a, b, c, d, e, f, g, h]
}

/// 32 bytes of each row, as two times `load16`.
///
/// # Safety
/// They are readable, and the instructions of `S` exist.
#[inline(always)]
pub(super) unsafe fn bytes32<S: Vectors>(from: Rows) -> [S::I; 8] {
    // SAFETY: the caller's promise.
    let ([a, b, c, d], [e, f, g, h]) = unsafe { (S::load16(from), S::load16(from.at(16))) };
    [a, b, c, d, e, f, g, h]
}

/// `width` bits of every byte, from bit `first` on.
///
/// # Safety
/// The instructions of `S` exist.
#[inline(always)]
pub(super) unsafe fn bits<S: Vectors>(bytes: S::I, first: u32, width: u32) -> S::I {
    let mask = ((1 << width) - 1) * 0x0101_0101;
    // SAFETY: the caller's promise.
    unsafe { S::and(if first == 0 { bytes } else { S::shr(bytes, first) }, S::splat_i(mask)) }
}

/// `bits` of eight vectors.
///
/// # Safety
/// The instructions of `S` exist.
#[inline(always)]
pub(super) unsafe fn bits8<S: Vectors>(mut bytes: [S::I; 8], first: u32, width: u32) -> [S::I; 8] {
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
pub(super) unsafe fn with_bits8<S: Vectors>(
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
pub(super) unsafe fn byte<S: Vectors>(bytes: S::I, index: usize) -> S::I {
    // SAFETY: the caller's promise.
    unsafe { S::and(S::shr(bytes, 8 * index as u32), S::splat_i(0xff)) }
}

/// The codes of 32 columns from 16 bytes: first the low halves, then the high halves.
///
/// # Safety
/// The 16 bytes of each row are readable, and the instructions of `S` exist.
#[inline(always)]
pub(super) unsafe fn nibbles<S: Vectors>(from: Rows) -> [S::I; 8] {
    // SAFETY: the caller's promise.
    unsafe {
        let [a, b, c, d] = S::load_codes(from);
        let mut codes = [a, b, c, d, a, b, c, d];
        for (i, codes) in codes.iter_mut().enumerate() {
            *codes = bits::<S>(*codes, if i < 4 { 0 } else { 4 }, 4);
        }
        codes
    }
}

/// Codes from signed bytes.
///
/// # Safety
/// The instructions of `S` exist.
#[inline(always)]
pub(super) unsafe fn signed<S: Vectors>(mut codes: [S::I; 8]) -> [S::I; 8] {
    for codes in &mut codes {
        // SAFETY: the caller's promise.
        *codes = unsafe { S::from_i8(*codes) };
    }
    codes
}

/// Codes of the entries of `table` that the bytes (0 to 15) name.
///
/// # Safety
/// The instructions of `S` exist.
#[inline(always)]
pub(super) unsafe fn levels<S: Vectors>(table: &[i8; 16], mut codes: [S::I; 8]) -> [S::I; 8] {
    for codes in &mut codes {
        // SAFETY: the caller's promise.
        *codes = unsafe { S::from_i8(S::lookup(table, *codes)) };
    }
    codes
}
