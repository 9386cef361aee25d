//! The vector operations on lines, besides those of all products.

use super::super::vectors::{Codes, Vectors};
use crate::simd::Portable8;

/// Vectors of `LANES` lanes of four bytes that lines are loaded into.
///
/// # Safety
/// As for [`Vectors`].
pub(super) trait Lines: Vectors {
    /// Loads `4 LANES` bytes.
    unsafe fn load(from: *const u8) -> Self::I;
    /// Interleaves the bytes of four vectors: lane `4 l + i` of vector `k` holds byte
    /// `16 l + 4 k + i` of each of them, in their order.
    unsafe fn interleave(lines: [Self::I; 4]) -> [Self::I; 4];

    /// Vectors of the sums that [`add_nibbles`](Self::add_nibbles) adds to.
    const SUMS_OF_NIBBLES: usize = 8;
    /// The start of those sums: `minus`, minus the sum of the activations, times 8. So they are the
    /// products with codes less 8, which fit into 16 bits for 32 inputs.
    #[inline(always)]
    unsafe fn start_of_nibbles(minus: i32) -> Self::I {
        // SAFETY: the caller's promise.
        unsafe { Self::splat_i(minus << 3) }
    }
    /// Adds the products of four activations with the halves of the bytes of four lines to sums.
    #[inline(always)]
    unsafe fn add_nibbles(lines: [Self::I; 4], x: &[i8; 4], sums: &mut [Self::I; 8]) {
        // SAFETY: the caller's promise.
        unsafe { add_interleaved::<Self>(lines, x, sums) }
    }
    /// The sums in 32 bits: vector `4 h + k` holds those of half `h` of the bytes
    /// `16 l + 4 k + i` of lines.
    #[inline(always)]
    unsafe fn widen_nibbles(sums: [Self::I; 8]) -> [Self::I; 8] {
        sums
    }
}

/// Adds the products of four activations with the halves of the bytes of four lines to sums of 32
/// bits.
///
/// # Safety
/// The instructions of `S` exist.
#[inline(always)]
pub(super) unsafe fn add_interleaved<S: Lines>(
    lines: [S::I; 4],
    x: &[i8; 4],
    sums: &mut [S::I; 8],
) {
    // SAFETY: the caller's promise.
    unsafe {
        let (both, mask) = (S::interleave(lines), S::splat_i(0x0f0f_0f0f));
        for k in 0..4 {
            for (half, shift) in [0, 4].into_iter().enumerate() {
                let code = S::and(S::shr(both[k], shift), mask);
                let sum = &mut sums[4 * half + k];
                [[*sum]] = S::dot::<1, 1, 1>(Codes::U4, [&raw const code], [x.as_ptr()], [*sum]);
            }
        }
    }
}

/// # Safety
/// `LANES` elements of `N` bytes are readable.
#[inline(always)]
unsafe fn elements<const N: usize, T>(from: *const u8, f: impl Fn([u8; N]) -> T) -> [T; 8] {
    // SAFETY: the caller's promise.
    std::array::from_fn(|i| f(unsafe { from.cast::<[u8; N]>().add(i).read() }))
}

impl Lines for Portable8 {
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self::I {
        // SAFETY: the caller's promise.
        unsafe { elements(from, i32::from_le_bytes) }
    }
    #[inline(always)]
    unsafe fn interleave(lines: [Self::I; 4]) -> [Self::I; 4] {
        let byte = |line: usize, at: usize| lines[line][at / 4].to_le_bytes()[at % 4];
        std::array::from_fn(|k| {
            std::array::from_fn(|lane| {
                let at = lane / 4 * 16 + 4 * k + lane % 4;
                i32::from_le_bytes(std::array::from_fn(|line| byte(line, at)))
            })
        })
    }
}
