//! Functions of vectors.

use super::lanes::Simd;

/// `1 / (1 + e⁻ˣ)`.
#[inline(always)]
pub(crate) fn sigmoid<S: Simd>(simd: S, x: S::V) -> S::V {
    let e = simd.exp(simd.mul(x, simd.splat(-1.0)));
    simd.div(simd.splat(1.0), simd.add(e, simd.splat(1.0)))
}

/// `tanh(x)` to within three units in the last place: below 0.625 the odd polynomial of Cephes'
/// `tanhf`, above it by the exponential.
#[inline(always)]
pub(crate) fn tanh<S: Simd>(simd: S, x: S::V) -> S::V {
    const POLYNOMIAL: [f32; 5] =
        [-5.704_988_7e-3, 2.063_909e-2, -5.373_971_6e-2, 1.333_144_2e-1, -3.333_328e-1];
    let one = simd.splat(1.0);
    let square = simd.mul(x, x);
    let mut p = simd.splat(POLYNOMIAL[0]);
    for c in &POLYNOMIAL[1..] {
        p = simd.mul_add(p, square, simd.splat(*c));
    }
    let near = simd.mul_add(simd.mul(p, square), x, x);
    // 1 - 2 / (e^2x + 1)
    let e = simd.exp(simd.add(x, x));
    let far = simd.mul_add(simd.div(simd.splat(-2.0), simd.add(e, one)), one, one);
    simd.select_less(square, simd.splat(0.625 * 0.625), near, far)
}

/// `ln(1 + eˣ)` to within four units in the last place.
///
/// It is `max(x, 0) + ln(1 + t)` with `t = e^-|x|`, and `ln(1 + t) = 2 artanh(s)` with
/// `s = t / (2 + t) ≤ 1/3`, by the series of artanh (Abramowitz and Stegun 4.6.33).
#[inline(always)]
pub(crate) fn softplus<S: Simd>(simd: S, x: S::V) -> S::V {
    let negative = simd.mul(x, simd.splat(-1.0));
    let magnitude = simd.max(x, negative);
    let t = simd.exp(simd.mul(magnitude, simd.splat(-1.0)));
    let s = simd.div(t, simd.add(t, simd.splat(2.0)));
    let square = simd.mul(s, s);
    let mut p = simd.splat(2.0 / 15.0);
    for n in [13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        p = simd.mul_add(p, square, simd.splat(2.0 / n));
    }
    simd.mul_add(p, s, simd.max(x, simd.splat(0.0)))
}

/// The standard normal distribution function `(1 + erf(x / √2)) / 2` to a relative error of 1e-6
/// above -5, and 0 from about -13 on.
///
/// `e^(-x² / 2) / 2 · P(t)` with `t = 1 / (1 + 0.6 |x| / √2)` is its value below 0. `P`
/// approximates `e^(z²) erfc(z)` to 2e-8 relative (fitted with numpy, weighted least squares).
#[inline(always)]
pub(crate) fn normal_cdf<S: Simd>(simd: S, x: S::V) -> S::V {
    const POLYNOMIAL: [f32; 11] = [
        4.112_914_6e-2,
        -1.820_586e-1,
        2.354_306_7e-1,
        1.133_748_5e-1,
        -5.141_705e-1,
        2.792_069_3e-1,
        5.106_338_5e-2,
        3.022_674_3e-1,
        3.349_688_6e-1,
        3.387_976e-1,
        -9.696_783e-6,
    ];
    let one = simd.splat(1.0);
    let magnitude = simd.max(x, simd.mul(x, simd.splat(-1.0)));
    let t = simd.div(one, simd.mul_add(magnitude, simd.splat(0.424_264_07), one));
    let mut p = simd.splat(POLYNOMIAL[0]);
    for c in &POLYNOMIAL[1..] {
        p = simd.mul_add(p, t, simd.splat(*c));
    }
    let e = simd.exp(simd.mul(simd.mul(x, x), simd.splat(-0.5)));
    let below = simd.mul(simd.mul(e, simd.splat(0.5)), p);
    let above = simd.mul_add(below, simd.splat(-1.0), one);
    simd.select_less(x, simd.splat(0.0), below, above)
}
