//! Sixteen lanes in an array.

use half::{bf16, f16};

use super::lanes::{LANES, Simd};
use super::register::Register;

/// Eight lanes of scalar Rust, for every CPU.
#[derive(Clone, Copy)]
pub(crate) struct Portable8;

/// Reads `BYTES` bytes.
///
/// # Safety
/// They are readable.
#[inline(always)]
unsafe fn bytes<const BYTES: usize>(from: *const u8) -> [u8; BYTES] {
    // SAFETY: the caller's promise; arrays of bytes have no alignment.
    unsafe { from.cast::<[u8; BYTES]>().read() }
}

#[inline(always)]
fn mul<const N: usize>(a: [f32; N], b: [f32; N]) -> [f32; N] {
    std::array::from_fn(|i| a[i] * b[i])
}

#[inline(always)]
fn fma<const N: usize>(a: [f32; N], b: [f32; N], c: [f32; N]) -> [f32; N] {
    std::array::from_fn(|i| a[i].mul_add(b[i], c[i]))
}

impl Register for Portable8 {
    const LANES: usize = 8;
    type F = [f32; 8];

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self::F {
        [value; 8]
    }
    #[inline(always)]
    unsafe fn mul(a: Self::F, b: Self::F) -> Self::F {
        mul(a, b)
    }
    #[inline(always)]
    unsafe fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        fma(a, b, c)
    }
    #[inline(always)]
    unsafe fn store(a: Self::F, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<Self::F>().write_unaligned(a) };
    }
    #[inline(always)]
    unsafe fn load_f32(from: *const u8) -> Self::F {
        // SAFETY: the caller's promise.
        std::array::from_fn(|i| f32::from_le_bytes(unsafe { bytes(from.add(4 * i)) }))
    }
    #[inline(always)]
    unsafe fn load_f16(from: *const u8) -> Self::F {
        // SAFETY: the caller's promise.
        std::array::from_fn(|i| f16::from_le_bytes(unsafe { bytes(from.add(2 * i)) }).to_f32())
    }
    #[inline(always)]
    unsafe fn load_bf16(from: *const u8) -> Self::F {
        // SAFETY: the caller's promise.
        std::array::from_fn(|i| bf16::from_le_bytes(unsafe { bytes(from.add(2 * i)) }).to_f32())
    }
}

/// Scalar Rust for every CPU: the specification of the other implementations.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

impl Portable {
    fn zip(a: [f32; LANES], b: [f32; LANES], f: impl Fn(f32, f32) -> f32) -> [f32; LANES] {
        std::array::from_fn(|i| f(a[i], b[i]))
    }
}

impl Simd for Portable {
    type V = [f32; LANES];
    const WIDTH: usize = 1;

    #[inline(always)]
    fn splat(self, value: f32) -> Self::V {
        [value; LANES]
    }
    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Self::V {
        *from
    }
    #[inline(always)]
    fn load_f16(self, from: &[f16; LANES]) -> Self::V {
        from.map(f16::to_f32)
    }
    #[inline(always)]
    fn load_i8(self, from: &[i8; LANES]) -> Self::V {
        from.map(f32::from)
    }
    #[inline(always)]
    fn store(self, v: Self::V, to: &mut [f32; LANES]) {
        *to = v;
    }
    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        Self::zip(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        mul(a, b)
    }
    #[inline(always)]
    fn max(self, a: Self::V, b: Self::V) -> Self::V {
        Self::zip(a, b, f32::max)
    }
    #[inline(always)]
    fn round(self, a: Self::V) -> Self::V {
        a.map(f32::round_ties_even)
    }
    #[inline(always)]
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        fma(a, b, c)
    }
    #[inline(always)]
    fn scale(self, a: Self::V, n: Self::V) -> Self::V {
        Self::zip(a, n, |a, n| a * f32::from_bits((((n as i32) + 127) as u32) << 23))
    }
    #[inline(always)]
    fn div(self, a: Self::V, b: Self::V) -> Self::V {
        Self::zip(a, b, |a, b| a / b)
    }
    #[inline(always)]
    fn select_less(self, a: Self::V, b: Self::V, x: Self::V, y: Self::V) -> Self::V {
        std::array::from_fn(|i| if a[i] < b[i] { x[i] } else { y[i] })
    }
    #[inline(always)]
    fn clamp(self, x: Self::V, low: f32, high: f32) -> Self::V {
        x.map(|x| x.clamp(low, high))
    }
}
