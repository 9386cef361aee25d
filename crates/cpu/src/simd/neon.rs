//! Four registers of NEON, which every 64-bit Arm processor has.

use std::arch::aarch64::*;

use half::f16;

use super::{Body, Simd};

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
        // SAFETY: `self` is a proof that the processor has the instructions; loads and stores
        // go through references to exactly as many lanes as they touch.
        unsafe { $body }
    };
}

/// The registers of sixteen lanes.
type Four = [float32x4_t; 4];

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
        with_proof!([vdupq_n_f32(value); 4])
    }
    #[inline(always)]
    fn load(self, from: &[f32; 16]) -> Self::V {
        let from = from.as_ptr();
        with_proof!([
            vld1q_f32(from),
            vld1q_f32(from.add(4)),
            vld1q_f32(from.add(8)),
            vld1q_f32(from.add(12)),
        ])
    }
    #[inline(always)]
    fn load_f16(self, from: &[f16; 16]) -> Self::V {
        let from: *const u16 = from.as_ptr().cast();
        with_proof!([
            vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from))),
            vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from.add(4)))),
            vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from.add(8)))),
            vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from.add(12)))),
        ])
    }
    #[inline(always)]
    fn load_i8(self, from: &[i8; 16]) -> Self::V {
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
    fn store(self, v: Self::V, to: &mut [f32; 16]) {
        let to = to.as_mut_ptr();
        with_proof!({
            vst1q_f32(to, v[0]);
            vst1q_f32(to.add(4), v[1]);
            vst1q_f32(to.add(8), v[2]);
            vst1q_f32(to.add(12), v[3]);
        })
    }
    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| with_proof!(vaddq_f32(a, b)))
    }
    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| with_proof!(vmulq_f32(a, b)))
    }
    #[inline(always)]
    fn max(self, a: Self::V, b: Self::V) -> Self::V {
        // of a number and a NaN the number, as `f32::max`
        zip(a, b, |a, b| with_proof!(vmaxnmq_f32(a, b)))
    }
    #[inline(always)]
    fn round(self, a: Self::V) -> Self::V {
        each(a, |a| with_proof!(vrndnq_f32(a)))
    }
    #[inline(always)]
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        let fma = |i| with_proof!(vfmaq_f32(c[i], a[i], b[i]));
        [fma(0), fma(1), fma(2), fma(3)]
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
    fn clamp(self, x: Self::V, low: f32, high: f32) -> Self::V {
        // these give a NaN if an operand is one
        with_proof!({
            let (low, high) = (vdupq_n_f32(low), vdupq_n_f32(high));
            each(x, |x| vminq_f32(high, vmaxq_f32(low, x)))
        })
    }
}
