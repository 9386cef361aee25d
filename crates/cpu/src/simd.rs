//! Sixteen lanes of f32 on whatever the processor has.
//!
//! A kernel is a [`Body`]: written once, generic over [`Simd`], and compiled for each instruction
//! set behind [`dispatch`]. A value of a `Simd` type is a proof that the processor has its
//! instructions, for only `dispatch` makes one, and only after the check.
//!
//! `inline(always)` everywhere and no closures around instructions: outside of the function that
//! has the instruction set, each operation is a call with its operands in memory.

#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(test)]
mod tests;

use half::f16;

use crate::kernels::Isa;

/// Operations on sixteen lanes of f32.
pub(crate) trait Simd: Copy {
    /// The lanes.
    type V: Copy;
    /// Vectors whose sums with six others fit into registers, beside what is added to them.
    const WIDTH: usize;

    fn splat(self, value: f32) -> Self::V;
    fn load(self, from: &[f32; 16]) -> Self::V;
    fn load_f16(self, from: &[f16; 16]) -> Self::V;
    fn load_i8(self, from: &[i8; 16]) -> Self::V;
    fn store(self, v: Self::V, to: &mut [f32; 16]);
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// The nearest integers, as f32.
    fn round(self, a: Self::V) -> Self::V;
    /// `a · b + c`, rounded once.
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `a · 2ⁿ` for whole numbers `n` from -126 to 127, and 0 for -127.
    fn scale(self, a: Self::V, n: Self::V) -> Self::V;
    fn div(self, a: Self::V, b: Self::V) -> Self::V;

    /// The sum of the lanes, in one fixed order.
    #[inline(always)]
    fn sum(self, v: Self::V) -> f32 {
        let mut lanes = [0.0; 16];
        self.store(v, &mut lanes);
        for half in [8, 4, 2, 1] {
            for i in 0..half {
                lanes[i] += lanes[i + half];
            }
        }
        lanes[0]
    }

    /// The greatest lane.
    #[inline(always)]
    fn greatest(self, v: Self::V) -> f32 {
        let mut lanes = [0.0; 16];
        self.store(v, &mut lanes);
        for half in [8, 4, 2, 1] {
            for i in 0..half {
                // one instruction, other than `f32::max`
                lanes[i] = if lanes[i] > lanes[i + half] { lanes[i] } else { lanes[i + half] };
            }
        }
        lanes[0]
    }

    /// `eˣ` to within two units in the last place; 0 below -87.7, `e⁸⁷` above 87.
    ///
    /// A 0, not the smallest number: what is multiplied with that is a number below the normal
    /// ones, and those a processor takes far longer for.
    ///
    /// `x = n·ln 2 + r` with `|r| ≤ ln 2 / 2`, and `eʳ` by the polynomial of Cephes' `expf`.
    #[inline(always)]
    fn exp(self, x: Self::V) -> Self::V {
        const LN2_HIGH: f32 = 0.693_359_4;
        const LN2_LOW: f32 = -2.121_944_4e-4;
        const POLYNOMIAL: [f32; 6] =
            [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 5e-1];
        let x = self.clamp(x, -88.0, 87.0);
        let n = self.round(self.mul(x, self.splat(std::f32::consts::LOG2_E)));
        let r = self.mul_add(n, self.splat(-LN2_HIGH), x);
        let r = self.mul_add(n, self.splat(-LN2_LOW), r);
        let mut p = self.splat(POLYNOMIAL[0]);
        for c in &POLYNOMIAL[1..] {
            p = self.mul_add(p, r, self.splat(*c));
        }
        let p = self.mul_add(p, self.mul(r, r), self.add(r, self.splat(1.0)));
        self.scale(p, n)
    }

    /// `min(max(x, low), high)`; a NaN stays one.
    fn clamp(self, x: Self::V, low: f32, high: f32) -> Self::V;
}

/// A kernel, written once for all instruction sets.
pub(crate) trait Body {
    fn run<S: Simd>(self, simd: S);
}

/// Runs a kernel compiled for `isa`.
pub(crate) fn dispatch(isa: Isa, body: impl Body) {
    #[cfg(target_arch = "x86_64")]
    {
        if isa >= Isa::Avx512 {
            // SAFETY: an `Isa` above portable is only made after detection of its features.
            return unsafe { x86::avx512(body) };
        }
        if isa >= Isa::Avx2 {
            // SAFETY: as above.
            return unsafe { x86::avx2(body) };
        }
    }
    #[cfg(target_arch = "aarch64")]
    if isa >= Isa::Neon {
        // SAFETY: as for x86.
        return unsafe { neon::neon(body) };
    }
    let _ = isa;
    body.run(Portable);
}

/// Plain Rust, for every processor, and the meaning of the others.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

impl Portable {
    fn zip(a: [f32; 16], b: [f32; 16], f: impl Fn(f32, f32) -> f32) -> [f32; 16] {
        std::array::from_fn(|i| f(a[i], b[i]))
    }
}

impl Simd for Portable {
    type V = [f32; 16];
    const WIDTH: usize = 1;

    #[inline(always)]
    fn splat(self, value: f32) -> Self::V {
        [value; 16]
    }
    #[inline(always)]
    fn load(self, from: &[f32; 16]) -> Self::V {
        *from
    }
    #[inline(always)]
    fn load_f16(self, from: &[f16; 16]) -> Self::V {
        from.map(f16::to_f32)
    }
    #[inline(always)]
    fn load_i8(self, from: &[i8; 16]) -> Self::V {
        from.map(f32::from)
    }
    #[inline(always)]
    fn store(self, v: Self::V, to: &mut [f32; 16]) {
        *to = v;
    }
    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        Self::zip(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        Self::zip(a, b, |a, b| a * b)
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
        std::array::from_fn(|i| a[i].mul_add(b[i], c[i]))
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
    fn clamp(self, x: Self::V, low: f32, high: f32) -> Self::V {
        x.map(|x| x.clamp(low, high))
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use half::f16;

    use super::{Body, Simd};

    /// Proof of AVX-512 F.
    #[derive(Clone, Copy)]
    pub(super) struct Avx512(());

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
    pub(super) fn avx512(body: impl Body) {
        body.run(Avx512(()));
    }

    /// Proof of AVX2, FMA and F16C.
    #[derive(Clone, Copy)]
    pub(super) struct Avx2(());

    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) fn avx2(body: impl Body) {
        body.run(Avx2(()));
    }

    /// One expression of intrinsics in a method of a proof type.
    macro_rules! with_proof {
        ($body:expr) => {
            // SAFETY: `self` is a proof that the processor has the instructions; loads and stores
            // go through references to exactly as many lanes as they touch.
            unsafe { $body }
        };
    }

    impl Simd for Avx512 {
        type V = __m512;
        const WIDTH: usize = 4;

        #[inline(always)]
        fn splat(self, value: f32) -> Self::V {
            with_proof!(_mm512_set1_ps(value))
        }
        #[inline(always)]
        fn load(self, from: &[f32; 16]) -> Self::V {
            with_proof!(_mm512_loadu_ps(from.as_ptr()))
        }
        #[inline(always)]
        fn load_f16(self, from: &[f16; 16]) -> Self::V {
            with_proof!(_mm512_cvtph_ps(_mm256_loadu_si256(from.as_ptr().cast())))
        }
        #[inline(always)]
        fn load_i8(self, from: &[i8; 16]) -> Self::V {
            with_proof!({
                let codes = _mm_loadu_si128(from.as_ptr().cast());
                _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(codes))
            })
        }
        #[inline(always)]
        fn store(self, v: Self::V, to: &mut [f32; 16]) {
            with_proof!(_mm512_storeu_ps(to.as_mut_ptr(), v))
        }
        #[inline(always)]
        fn add(self, a: Self::V, b: Self::V) -> Self::V {
            with_proof!(_mm512_add_ps(a, b))
        }
        #[inline(always)]
        fn mul(self, a: Self::V, b: Self::V) -> Self::V {
            with_proof!(_mm512_mul_ps(a, b))
        }
        #[inline(always)]
        fn max(self, a: Self::V, b: Self::V) -> Self::V {
            with_proof!(_mm512_max_ps(a, b))
        }
        #[inline(always)]
        fn round(self, a: Self::V) -> Self::V {
            with_proof!(_mm512_roundscale_ps::<_MM_FROUND_TO_NEAREST_INT>(a))
        }
        #[inline(always)]
        fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
            with_proof!(_mm512_fmadd_ps(a, b, c))
        }
        #[inline(always)]
        fn scale(self, a: Self::V, n: Self::V) -> Self::V {
            with_proof!({
                let biased = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
                _mm512_mul_ps(a, _mm512_castsi512_ps(_mm512_slli_epi32::<23>(biased)))
            })
        }
        #[inline(always)]
        fn div(self, a: Self::V, b: Self::V) -> Self::V {
            with_proof!(_mm512_div_ps(a, b))
        }
        #[inline(always)]
        fn clamp(self, x: Self::V, low: f32, high: f32) -> Self::V {
            // the second operand is what min and max return for a NaN
            with_proof!(_mm512_min_ps(_mm512_set1_ps(high), _mm512_max_ps(_mm512_set1_ps(low), x)))
        }
    }

    /// The same expression for both halves.
    macro_rules! both {
        (|$i:ident| $body:expr) => {
            with_proof!([
                {
                    let $i = 0;
                    $body
                },
                {
                    let $i = 1;
                    $body
                }
            ])
        };
    }

    impl Simd for Avx2 {
        type V = [__m256; 2];
        const WIDTH: usize = 1;

        #[inline(always)]
        fn splat(self, value: f32) -> Self::V {
            with_proof!([_mm256_set1_ps(value); 2])
        }
        #[inline(always)]
        fn load(self, from: &[f32; 16]) -> Self::V {
            let (low, high) = from.split_at(8);
            with_proof!([_mm256_loadu_ps(low.as_ptr()), _mm256_loadu_ps(high.as_ptr())])
        }
        #[inline(always)]
        fn load_f16(self, from: &[f16; 16]) -> Self::V {
            let (low, high) = from.split_at(8);
            with_proof!([
                _mm256_cvtph_ps(_mm_loadu_si128(low.as_ptr().cast())),
                _mm256_cvtph_ps(_mm_loadu_si128(high.as_ptr().cast())),
            ])
        }
        #[inline(always)]
        fn load_i8(self, from: &[i8; 16]) -> Self::V {
            let (low, high) = from.split_at(8);
            [low, high].map(|half| {
                with_proof!({
                    let codes = _mm_loadl_epi64(half.as_ptr().cast());
                    _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes))
                })
            })
        }
        #[inline(always)]
        fn store(self, v: Self::V, to: &mut [f32; 16]) {
            let (low, high) = to.split_at_mut(8);
            with_proof!({
                _mm256_storeu_ps(low.as_mut_ptr(), v[0]);
                _mm256_storeu_ps(high.as_mut_ptr(), v[1]);
            })
        }
        #[inline(always)]
        fn add(self, a: Self::V, b: Self::V) -> Self::V {
            both!(|i| _mm256_add_ps(a[i], b[i]))
        }
        #[inline(always)]
        fn mul(self, a: Self::V, b: Self::V) -> Self::V {
            both!(|i| _mm256_mul_ps(a[i], b[i]))
        }
        #[inline(always)]
        fn max(self, a: Self::V, b: Self::V) -> Self::V {
            both!(|i| _mm256_max_ps(a[i], b[i]))
        }
        #[inline(always)]
        fn round(self, a: Self::V) -> Self::V {
            const MODE: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
            both!(|i| _mm256_round_ps::<MODE>(a[i]))
        }
        #[inline(always)]
        fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
            both!(|i| _mm256_fmadd_ps(a[i], b[i], c[i]))
        }
        #[inline(always)]
        fn scale(self, a: Self::V, n: Self::V) -> Self::V {
            both!(|i| {
                let biased = _mm256_add_epi32(_mm256_cvtps_epi32(n[i]), _mm256_set1_epi32(127));
                _mm256_mul_ps(a[i], _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased)))
            })
        }
        #[inline(always)]
        fn div(self, a: Self::V, b: Self::V) -> Self::V {
            both!(|i| _mm256_div_ps(a[i], b[i]))
        }
        #[inline(always)]
        fn clamp(self, x: Self::V, low: f32, high: f32) -> Self::V {
            both!(|i| {
                _mm256_min_ps(_mm256_set1_ps(high), _mm256_max_ps(_mm256_set1_ps(low), x[i]))
            })
        }
    }
}
