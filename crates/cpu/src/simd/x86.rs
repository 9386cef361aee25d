//! Sixteen lanes in one register of AVX-512, or in two of AVX2.

use std::arch::x86_64::*;

use half::f16;

use super::lanes::{Body, LANES, Simd};
use super::register::Register;

/// A register of AVX2, with FMA and F16C, on a CPU with AVX-VNNI if `VNNI`.
#[derive(Clone, Copy)]
pub(crate) struct Ymm<const VNNI: bool>;

impl<const VNNI: bool> Register for Ymm<VNNI> {
    const LANES: usize = 8;
    type F = __m256;

    #[inline(always)]
    unsafe fn splat(value: f32) -> __m256 {
        // SAFETY: the instructions exist, by the caller's promise; so below.
        unsafe { _mm256_set1_ps(value) }
    }
    #[inline(always)]
    unsafe fn mul(a: __m256, b: __m256) -> __m256 {
        // SAFETY: as above.
        unsafe { _mm256_mul_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn fma(a: __m256, b: __m256, c: __m256) -> __m256 {
        // SAFETY: as above.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    unsafe fn store(a: __m256, to: *mut f32) {
        // SAFETY: as above.
        unsafe { _mm256_storeu_ps(to, a) }
    }
    #[inline(always)]
    unsafe fn load_f32(from: *const u8) -> __m256 {
        // SAFETY: as above.
        unsafe { _mm256_loadu_ps(from.cast()) }
    }
    #[inline(always)]
    unsafe fn load_f16(from: *const u8) -> __m256 {
        // SAFETY: as above.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.cast())) }
    }
    #[inline(always)]
    unsafe fn load_bf16(from: *const u8) -> __m256 {
        // SAFETY: as above.
        unsafe {
            let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
        }
    }
}

/// A register of AVX-512 F, BW, DQ and VL, on a CPU with VNNI if `VNNI`.
#[derive(Clone, Copy)]
pub(crate) struct Zmm<const VNNI: bool>;

impl<const VNNI: bool> Register for Zmm<VNNI> {
    const LANES: usize = 16;
    type F = __m512;

    #[inline(always)]
    unsafe fn splat(value: f32) -> __m512 {
        // SAFETY: the instructions exist, by the caller's promise; so below.
        unsafe { _mm512_set1_ps(value) }
    }
    #[inline(always)]
    unsafe fn mul(a: __m512, b: __m512) -> __m512 {
        // SAFETY: as above.
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: as above.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    unsafe fn store(a: __m512, to: *mut f32) {
        // SAFETY: as above.
        unsafe { _mm512_storeu_ps(to, a) }
    }
    #[inline(always)]
    unsafe fn load_f32(from: *const u8) -> __m512 {
        // SAFETY: as above.
        unsafe { _mm512_loadu_ps(from.cast()) }
    }
    #[inline(always)]
    unsafe fn load_f16(from: *const u8) -> __m512 {
        // SAFETY: as above.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) }
    }
    #[inline(always)]
    unsafe fn load_bf16(from: *const u8) -> __m512 {
        // SAFETY: as above.
        unsafe {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
        }
    }
}

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
        // SAFETY: `self` is a proof that the CPU has the instructions; loads and stores
        // go through references to exactly as many lanes as they touch.
        unsafe { $body }
    };
}

impl Simd for Avx512 {
    type V = __m512;
    const WIDTH: usize = 4;

    #[inline(always)]
    fn splat(self, value: f32) -> Self::V {
        with_proof!(Zmm::<false>::splat(value))
    }
    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Self::V {
        with_proof!(Zmm::<false>::load_f32(from.as_ptr().cast()))
    }
    #[inline(always)]
    fn load_f16(self, from: &[f16; LANES]) -> Self::V {
        with_proof!(Zmm::<false>::load_f16(from.as_ptr().cast()))
    }
    #[inline(always)]
    fn load_i8(self, from: &[i8; LANES]) -> Self::V {
        with_proof!({
            let codes = _mm_loadu_si128(from.as_ptr().cast());
            _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(codes))
        })
    }
    #[inline(always)]
    fn store(self, v: Self::V, to: &mut [f32; LANES]) {
        with_proof!(Zmm::<false>::store(v, to.as_mut_ptr()))
    }
    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        with_proof!(_mm512_add_ps(a, b))
    }
    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        with_proof!(Zmm::<false>::mul(a, b))
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
        with_proof!(Zmm::<false>::fma(a, b, c))
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
    fn select_less(self, a: Self::V, b: Self::V, x: Self::V, y: Self::V) -> Self::V {
        with_proof!(_mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b), y, x))
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
        with_proof!([Ymm::<false>::splat(value); 2])
    }
    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Self::V {
        let (low, high) = from.split_at(8);
        with_proof!([
            Ymm::<false>::load_f32(low.as_ptr().cast()),
            Ymm::<false>::load_f32(high.as_ptr().cast())
        ])
    }
    #[inline(always)]
    fn load_f16(self, from: &[f16; LANES]) -> Self::V {
        let (low, high) = from.split_at(8);
        with_proof!([
            Ymm::<false>::load_f16(low.as_ptr().cast()),
            Ymm::<false>::load_f16(high.as_ptr().cast())
        ])
    }
    #[inline(always)]
    fn load_i8(self, from: &[i8; LANES]) -> Self::V {
        let (low, high) = from.split_at(8);
        with_proof!({
            let low = _mm256_cvtepi8_epi32(_mm_loadl_epi64(low.as_ptr().cast()));
            let high = _mm256_cvtepi8_epi32(_mm_loadl_epi64(high.as_ptr().cast()));
            [_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(high)]
        })
    }
    #[inline(always)]
    fn store(self, v: Self::V, to: &mut [f32; LANES]) {
        let (low, high) = to.split_at_mut(8);
        with_proof!({
            Ymm::<false>::store(v[0], low.as_mut_ptr());
            Ymm::<false>::store(v[1], high.as_mut_ptr());
        })
    }
    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        both!(|i| _mm256_add_ps(a[i], b[i]))
    }
    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        both!(|i| Ymm::<false>::mul(a[i], b[i]))
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
        both!(|i| Ymm::<false>::fma(a[i], b[i], c[i]))
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
    fn select_less(self, a: Self::V, b: Self::V, x: Self::V, y: Self::V) -> Self::V {
        both!(|i| _mm256_blendv_ps(y[i], x[i], _mm256_cmp_ps::<_CMP_LT_OQ>(a[i], b[i])))
    }
    #[inline(always)]
    fn clamp(self, x: Self::V, low: f32, high: f32) -> Self::V {
        both!(|i| _mm256_min_ps(_mm256_set1_ps(high), _mm256_max_ps(_mm256_set1_ps(low), x[i])))
    }
}
