//! Sixteen lanes in four registers of NEON, which every 64-bit Arm CPU has.

use std::arch::aarch64::*;
use std::marker::PhantomData;

use half::f16;

use super::lanes::{Body, LANES, Simd};
use super::register::Register;

/// Two registers of NEON, on a CPU with the products of bytes `P`.
#[derive(Clone, Copy)]
pub(crate) struct NeonPair<P>(PhantomData<P>);

impl<P: Copy + 'static> Register for NeonPair<P> {
    const LANES: usize = 8;
    type F = [float32x4_t; 2];

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self::F {
        // SAFETY: the instructions exist, by the caller's promise; so below.
        unsafe { [vdupq_n_f32(value); 2] }
    }
    #[inline(always)]
    unsafe fn mul(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: as above.
        unsafe { [vmulq_f32(a[0], b[0]), vmulq_f32(a[1], b[1])] }
    }
    #[inline(always)]
    unsafe fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        // SAFETY: as above.
        unsafe { [vfmaq_f32(c[0], a[0], b[0]), vfmaq_f32(c[1], a[1], b[1])] }
    }
    #[inline(always)]
    unsafe fn store(a: Self::F, to: *mut f32) {
        // SAFETY: as above; there is room for `LANES` elements.
        unsafe {
            vst1q_f32(to, a[0]);
            vst1q_f32(to.add(4), a[1]);
        }
    }
    #[inline(always)]
    unsafe fn load_f32(from: *const u8) -> Self::F {
        // SAFETY: as above; there are `LANES` elements, so below.
        unsafe { [vld1q_f32(from.cast()), vld1q_f32(from.add(16).cast())] }
    }
    #[inline(always)]
    unsafe fn load_f16(from: *const u8) -> Self::F {
        // SAFETY: as above.
        unsafe {
            [
                vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(from))),
                vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(from.add(8)))),
            ]
        }
    }
    #[inline(always)]
    unsafe fn load_bf16(from: *const u8) -> Self::F {
        // SAFETY: as above.
        unsafe {
            let widen = |half| vshll_n_u16::<16>(vreinterpret_u16_u8(half));
            [vld1_u8(from), vld1_u8(from.add(8))].map(|half| vreinterpretq_f32_u32(widen(half)))
        }
    }
}

/// Proof of NEON.
#[derive(Clone, Copy)]
pub(super) struct Neon(());

#[target_feature(enable = "neon")]
pub(super) fn neon(body: impl Body) {
    body.run(Neon(()));
}

/// One expression of intrinsics in a method of the proof.
macro_rules! with_proof {
    ($body:expr) => {
        // SAFETY: `self` is a proof that the CPU has the instructions; loads and stores
        // go through references to exactly as many lanes as they touch.
        unsafe { $body }
    };
}

/// The registers of sixteen lanes.
type Four = [float32x4_t; 4];

type Half = NeonPair<()>;

#[inline(always)]
fn join([a, b]: [float32x4_t; 2], [c, d]: [float32x4_t; 2]) -> Four {
    [a, b, c, d]
}

#[inline(always)]
fn halves([a, b, c, d]: Four) -> ([float32x4_t; 2], [float32x4_t; 2]) {
    ([a, b], [c, d])
}

// not `array::map`, which is not sure to be inlined
#[inline(always)]
fn each(a: Four, f: impl Fn(float32x4_t) -> float32x4_t) -> Four {
    [f(a[0]), f(a[1]), f(a[2]), f(a[3])]
}

#[inline(always)]
fn zip(a: Four, b: Four, f: impl Fn(float32x4_t, float32x4_t) -> float32x4_t) -> Four {
    [f(a[0], b[0]), f(a[1], b[1]), f(a[2], b[2]), f(a[3], b[3])]
}

impl Simd for Neon {
    type V = Four;
    const WIDTH: usize = 1;

    #[inline(always)]
    fn splat(self, value: f32) -> Self::V {
        with_proof!(join(Half::splat(value), Half::splat(value)))
    }
    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Self::V {
        let (low, high) = from.split_at(8);
        with_proof!(join(Half::load_f32(low.as_ptr().cast()), Half::load_f32(high.as_ptr().cast())))
    }
    #[inline(always)]
    fn load_f16(self, from: &[f16; LANES]) -> Self::V {
        let (low, high) = from.split_at(8);
        with_proof!(join(Half::load_f16(low.as_ptr().cast()), Half::load_f16(high.as_ptr().cast())))
    }
    #[inline(always)]
    fn load_i8(self, from: &[i8; LANES]) -> Self::V {
        with_proof!({
            let codes = vld1q_s8(from.as_ptr());
            let (low, high) = (vmovl_s8(vget_low_s8(codes)), vmovl_s8(vget_high_s8(codes)));
            [
                vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))),
                vcvtq_f32_s32(vmovl_s16(vget_high_s16(low))),
                vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))),
                vcvtq_f32_s32(vmovl_s16(vget_high_s16(high))),
            ]
        })
    }
    #[inline(always)]
    fn store(self, v: Self::V, to: &mut [f32; LANES]) {
        let (low, high) = to.split_at_mut(8);
        let halves = halves(v);
        with_proof!({
            Half::store(halves.0, low.as_mut_ptr());
            Half::store(halves.1, high.as_mut_ptr());
        })
    }
    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| with_proof!(vaddq_f32(a, b)))
    }
    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        let (a, b) = (halves(a), halves(b));
        with_proof!(join(Half::mul(a.0, b.0), Half::mul(a.1, b.1)))
    }
    #[inline(always)]
    fn max(self, a: Self::V, b: Self::V) -> Self::V {
        // the other operand of a NaN, as `f32::max`
        zip(a, b, |a, b| with_proof!(vmaxnmq_f32(a, b)))
    }
    #[inline(always)]
    fn round(self, a: Self::V) -> Self::V {
        each(a, |a| with_proof!(vrndnq_f32(a)))
    }
    #[inline(always)]
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        let (a, b, c) = (halves(a), halves(b), halves(c));
        with_proof!(join(Half::fma(a.0, b.0, c.0), Half::fma(a.1, b.1, c.1)))
    }
    #[inline(always)]
    fn scale(self, a: Self::V, n: Self::V) -> Self::V {
        zip(a, n, |a, n| {
            with_proof!({
                let biased = vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127));
                vmulq_f32(a, vreinterpretq_f32_s32(vshlq_n_s32::<23>(biased)))
            })
        })
    }
    #[inline(always)]
    fn div(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| with_proof!(vdivq_f32(a, b)))
    }
    #[inline(always)]
    fn select_less(self, a: Self::V, b: Self::V, x: Self::V, y: Self::V) -> Self::V {
        let one = |i: usize| with_proof!(vbslq_f32(vcltq_f32(a[i], b[i]), x[i], y[i]));
        [one(0), one(1), one(2), one(3)]
    }
    #[inline(always)]
    fn clamp(self, x: Self::V, low: f32, high: f32) -> Self::V {
        // these give a NaN if an operand is one
        with_proof!({
            let (low, high) = (vdupq_n_f32(low), vdupq_n_f32(high));
            each(x, |x| vminq_f32(high, vmaxq_f32(low, x)))
        })
    }
}
