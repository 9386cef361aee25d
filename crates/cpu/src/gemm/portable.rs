//! The vector operations in scalar Rust: the specification of the other implementations.

use half::f16;

use super::vectors::{Codes, Rows, Vectors};
use crate::simd::{Portable8, Register};

const LANES: usize = Portable8::LANES;

#[inline(always)]
fn each<T: Copy, U: Copy>(a: [T; LANES], f: impl Fn(T) -> U) -> [U; LANES] {
    a.map(f)
}

#[inline(always)]
fn pairs<T: Copy>(a: [T; LANES], b: [T; LANES], f: impl Fn(T, T) -> T) -> [T; LANES] {
    std::array::from_fn(|i| f(a[i], b[i]))
}

/// Reads `BYTES` bytes.
///
/// # Safety
/// They are readable.
#[inline(always)]
unsafe fn bytes<const BYTES: usize>(from: *const u8) -> [u8; BYTES] {
    // SAFETY: the caller's promise; arrays of bytes have no alignment.
    unsafe { from.cast::<[u8; BYTES]>().read() }
}

impl Vectors for Portable8 {
    const I8_ZERO: Option<u32> = None;
    const PANELS: usize = 1;
    type I = [i32; LANES];
    type Magnitudes = ();

    #[inline(always)]
    unsafe fn splat_i(value: i32) -> Self::I {
        [value; LANES]
    }
    #[inline(always)]
    unsafe fn and(a: Self::I, b: Self::I) -> Self::I {
        pairs(a, b, |a, b| a & b)
    }
    #[inline(always)]
    unsafe fn or(a: Self::I, b: Self::I) -> Self::I {
        pairs(a, b, |a, b| a | b)
    }
    #[inline(always)]
    unsafe fn xor(a: Self::I, b: Self::I) -> Self::I {
        pairs(a, b, |a, b| a ^ b)
    }
    #[inline(always)]
    unsafe fn sub_i(a: Self::I, b: Self::I) -> Self::I {
        pairs(a, b, i32::wrapping_sub)
    }
    #[inline(always)]
    unsafe fn add_i(a: Self::I, b: Self::I) -> Self::I {
        pairs(a, b, i32::wrapping_add)
    }
    #[inline(always)]
    unsafe fn shl(a: Self::I, bits: u32) -> Self::I {
        each(a, |a| a << bits)
    }
    #[inline(always)]
    unsafe fn shr(a: Self::I, bits: u32) -> Self::I {
        each(a, |a| (a as u32 >> bits) as i32)
    }
    #[inline(always)]
    unsafe fn sar(a: Self::I, bits: u32) -> Self::I {
        each(a, |a| a >> bits)
    }

    #[inline(always)]
    unsafe fn to_f32(a: Self::I) -> Self::F {
        each(a, |a| a as f32)
    }
    #[inline(always)]
    unsafe fn f32_of_bits(a: Self::I) -> Self::F {
        each(a, |a| f32::from_bits(a as u32))
    }
    #[inline(always)]
    unsafe fn f16_to_f32(a: Self::I) -> Self::F {
        each(a, |a| f16::from_bits(a as u16).to_f32())
    }

    #[inline(always)]
    unsafe fn load4(from: Rows) -> Self::I {
        // SAFETY: the caller's promise.
        std::array::from_fn(|i| unsafe {
            i32::from_le_bytes(bytes(from.first.add(i * from.stride)))
        })
    }
    #[inline(always)]
    unsafe fn load16(from: Rows) -> [Self::I; 4] {
        // SAFETY: the caller's promise.
        std::array::from_fn(|j| unsafe { Self::load4(from.at(4 * j)) })
    }

    #[inline(always)]
    unsafe fn magnitudes(_: &[Self::I; 8]) {}
    #[inline(always)]
    unsafe fn from_i8(a: Self::I) -> Self::I {
        a
    }
    #[inline(always)]
    unsafe fn lookup(table: &[i8; 16], index: Self::I) -> Self::I {
        each(index, |a| {
            i32::from_le_bytes(a.to_le_bytes().map(|byte| table[usize::from(byte & 15)] as u8))
        })
    }

    #[inline(always)]
    unsafe fn gather(table: *const u8, index: Self::I) -> Self::I {
        // SAFETY: the caller's promise.
        each(index, |i| unsafe { i32::from_le_bytes(bytes(table.add(4 * i as usize))) })
    }

    #[inline(always)]
    unsafe fn dot<const N: usize, const NR: usize, const MR: usize>(
        codes: Codes,
        weights: [*const Self::I; NR],
        x: [*const i8; MR],
        start: [Self::I; MR],
    ) -> [[Self::I; MR]; NR] {
        let mut sums = [start; NR];
        for (sums, weights) in sums.iter_mut().zip(weights) {
            for (sum, x) in sums.iter_mut().zip(x) {
                for i in 0..N {
                    // SAFETY: `N` vectors and `4 N` activations, by the caller's promise.
                    let (weights, x) =
                        unsafe { (*weights.add(i), bytes::<4>(x.add(4 * i).cast())) };
                    for (sum, lane) in sum.iter_mut().zip(weights) {
                        for (code, x) in lane.to_le_bytes().into_iter().zip(x) {
                            let signed = codes.are_signed();
                            let code = if signed { i32::from(code as i8) } else { code.into() };
                            *sum += code * i32::from(x as i8);
                        }
                    }
                }
            }
        }
        sums
    }
}
