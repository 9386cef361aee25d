//! Pairs of NEON registers as vectors of eight lanes.

use std::arch::aarch64::*;

use super::super::vectors::Rows;

/// The registers of a vector of eight lanes.
pub(super) type Pair<T> = [T; 2];

#[inline(always)]
pub(super) fn each<T: Copy, U: Copy>(a: Pair<T>, f: impl Fn(T) -> U) -> Pair<U> {
    [f(a[0]), f(a[1])]
}

#[inline(always)]
pub(super) fn pairs<T: Copy>(a: Pair<T>, b: Pair<T>, f: impl Fn(T, T) -> T) -> Pair<T> {
    [f(a[0], b[0]), f(a[1], b[1])]
}

/// The rows from the fifth on.
///
/// # Safety
/// There are more than four.
#[inline(always)]
pub(super) unsafe fn fifth(rows: Rows) -> Rows {
    // SAFETY: the caller's promise.
    Rows { first: unsafe { rows.first.add(4 * rows.stride) }, ..rows }
}

/// Four bytes of each of four rows.
///
/// # Safety
/// They are readable.
#[inline(always)]
pub(super) unsafe fn load4_of_four(from: Rows) -> int32x4_t {
    let mut rows = [0_i32; 4];
    for (i, row) in rows.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *row = unsafe { from.first.add(i * from.stride).cast::<i32>().read_unaligned() };
    }
    // SAFETY: there are four.
    unsafe { vld1q_s32(rows.as_ptr()) }
}

/// Sixteen bytes of each of four rows, transposed: register j holds bytes 4j to 4j+3 of all.
///
/// # Safety
/// They are readable.
#[inline(always)]
unsafe fn load16_of_four(from: Rows) -> [int32x4_t; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        let row = |row| vreinterpretq_s32_u8(vld1q_u8(from.first.add(row * from.stride)));
        let (a, b, c, d) = (row(0), row(1), row(2), row(3));
        let even = |a, b| vreinterpretq_s64_s32(vtrn1q_s32(a, b));
        let odd = |a, b| vreinterpretq_s64_s32(vtrn2q_s32(a, b));
        [
            vreinterpretq_s32_s64(vtrn1q_s64(even(a, b), even(c, d))),
            vreinterpretq_s32_s64(vtrn1q_s64(odd(a, b), odd(c, d))),
            vreinterpretq_s32_s64(vtrn2q_s64(even(a, b), even(c, d))),
            vreinterpretq_s32_s64(vtrn2q_s64(odd(a, b), odd(c, d))),
        ]
    }
}

/// Sixteen bytes of each of eight rows, transposed: vector j holds bytes 4j to 4j+3 of all.
///
/// # Safety
/// They are readable.
#[inline(always)]
pub(super) unsafe fn load16(from: Rows) -> [Pair<int32x4_t>; 4] {
    // SAFETY: the caller's promise.
    let (low, high) = unsafe { (load16_of_four(from), load16_of_four(fifth(from))) };
    [[low[0], high[0]], [low[1], high[1]], [low[2], high[2]], [low[3], high[3]]]
}

/// The words of `table` that the lanes name.
///
/// # Safety
/// They are readable.
#[inline(always)]
pub(super) unsafe fn gather(table: *const u8, index: int32x4_t) -> int32x4_t {
    let mut words = [0_i32; 4];
    // SAFETY: the caller's promise; there are four.
    unsafe {
        vst1q_s32(words.as_mut_ptr(), index);
        for word in &mut words {
            *word = table.add(4 * *word as usize).cast::<i32>().read_unaligned();
        }
        vld1q_s32(words.as_ptr())
    }
}

/// Shifts each lane right and fills with zeros.
///
/// # Safety
/// NEON exists.
#[inline(always)]
pub(super) unsafe fn shr(a: Pair<int32x4_t>, bits: u32) -> Pair<int32x4_t> {
    // SAFETY: the caller's promise.
    unsafe {
        // shifts with a register go left, and right by a negative count
        let right = vdupq_n_s32(-(bits as i32));
        each(a, |a| vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(a), right)))
    }
}
