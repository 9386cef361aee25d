//! Logarithms and powers of two in whole numbers.
//!
//! The `ln` and `exp` of different CPUs, systems and GPUs differ in the last bits, which would
//! occasionally draw another token. Sums and products of whole numbers have the same bits
//! everywhere, so the same logits and seed give the same text everywhere. Their sums do not depend
//! on the order of summation, so a GPU can add them in parallel.

/// Binary digits after the point of logarithms and distances.
pub const FRACTION: u32 = 25;

/// The weight 1.
pub const ONE: u32 = 1 << 31;

/// `log2(1 + t) / t` for `t` in -1/4 to 1/2, as `c₀ - s·(c₁ - s·(c₂ - …))` with `s = t + 1/4` and
/// coefficients in units of 2⁻³⁰: the polynomial through the function at the ten Chebyshev points
/// of the interval, with an error below 10⁻⁸.
pub const LOG2: [u32; 10] = [
    1_782_572_478,
    1_131_478_469,
    981_821_599,
    966_341_873,
    1_006_255_708,
    1_035_808_445,
    950_177_497,
    675_927_073,
    312_032_339,
    67_564_612,
];

/// `(1 - 2⁻ᶠ) / f` for `f` in 0 to 1, in the same form with `s = f` and units of 2⁻³¹: through
/// seven Chebyshev points, with an error below 10⁻⁹.
pub const EXP2: [u32; 7] =
    [1_488_522_236, 515_882_469, 119_193_747, 20_652_244, 2_856_024, 319_744, 24_275];

/// The upper 32 bits of a product.
const fn mulhi(a: u32, b: u32) -> u32 {
    ((a as u64 * b as u64) >> 32) as u32
}

/// `c₀ - s·(c₁ - s·(c₂ - …))`, where `s` is in units of 2⁻³².
fn alternating(coefficients: &[u32], s: u32) -> u32 {
    coefficients.iter().rev().fold(0, |sum, &c| c.wrapping_sub(mulhi(s, sum)))
}

/// A positive number: `mantissa · 2^exponent`, where the mantissa's highest bit is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// At least 2³¹.
    pub mantissa: u32,
    /// The power of two that the mantissa is multiplied by.
    pub exponent: i32,
}

impl Scale {
    /// A positive, finite, normal value, rounded down to 32 binary digits.
    pub(crate) fn new(value: f64) -> Self {
        let bits = value.to_bits();
        let mantissa = (bits >> 21) as u32 | 1 << 31;
        Self { mantissa, exponent: (bits >> 52) as i32 - 1023 - 31 }
    }

    /// The value, rounded to f32.
    pub(crate) fn value(self) -> f32 {
        self.mantissa as f32 * (self.exponent as f32).exp2()
    }

    /// `value` times this, rounded down and saturated at `u32::MAX`. `value` is at least 0 and not
    /// NaN; a subnormal one counts as 0, since GPUs may flush it.
    pub(crate) fn times(self, value: f32) -> u32 {
        let bits = value.to_bits();
        let exponent = (bits >> 23) as i32;
        if exponent == 0 {
            return 0;
        }
        // value = m · 2^(exponent - 127 - 31), and the upper half of the product drops 2³²
        let m = bits << 8 | 1 << 31;
        let shift = exponent - 126 + self.exponent;
        match shift {
            _ if exponent == 255 || shift > 0 => u32::MAX,
            -31..=0 => mulhi(m, self.mantissa) >> -shift,
            _ => 0,
        }
    }
}

/// `2^-f` in units of 2⁻³¹ for the fraction `f` of a distance in units of 2⁻²⁵: above 2³⁰, at most
/// 2³¹.
pub(crate) fn exp2_mantissa(distance: u32) -> u32 {
    let f = distance << (32 - FRACTION);
    ONE - mulhi(f, alternating(&EXP2, f))
}

/// `2^-distance` in units of 2⁻³¹, for a distance in units of 2⁻²⁵.
pub(crate) fn exp2(distance: u32) -> u32 {
    exp2_mantissa(distance).checked_shr(distance >> FRACTION).unwrap_or(0)
}

/// `log2(m / 2³¹)` for an `m` with the highest bit set: `t · factor`, or `1 - t · factor` with
/// `upper`.
struct Log {
    upper: bool,
    /// The distance of m from 2³¹ (2³² with `upper`), in units of 2⁻³² of that.
    t: u32,
    /// The factor of `t`, in units of 2⁻³⁰.
    factor: u32,
}

impl Log {
    /// The upper half of the octave is taken relative to its end, so that the argument of the
    /// polynomial is small there.
    fn new(m: u32) -> Self {
        let upper = m >= 3 << 30;
        let t = if upper { m.wrapping_neg() } else { m << 1 };
        let s = if upper { (1 << 30) - t } else { (1 << 30) + t };
        Self { upper, t, factor: alternating(&LOG2, s) }
    }
}

/// `-log2(-log2(u))` for the odd number `u` in units of 2⁻³², in units of 2⁻²⁵.
pub(crate) fn double_log2(u: u32) -> i32 {
    // -log2(u) as a whole number times a power of two
    let zeros = u.leading_zeros();
    let log = Log::new(u << zeros);
    let (number, exponent) = match (log.upper, zeros) {
        // u is close to 1 and its logarithm close to 0, so that all digits are needed
        (true, 0) => {
            let zeros = log.t.leading_zeros();
            (mulhi(log.t << zeros, log.factor), -30 - zeros as i32)
        }
        (true, _) => ((zeros << 26) + (mulhi(log.t, log.factor) >> 4), -26),
        (false, _) => (((zeros + 1) << 26) - (mulhi(log.t, log.factor) >> 4), -26),
    };
    let zeros = number.leading_zeros();
    let log = Log::new(number << zeros);
    let part = (mulhi(log.t, log.factor) >> (30 - FRACTION)) as i32;
    let whole = exponent + 31 - zeros as i32;
    match log.upper {
        true => part - ((whole + 1) << FRACTION),
        false => -part - (whole << FRACTION),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: f64 = 1.0 / (1u32 << FRACTION) as f64;

    /// Values of all magnitudes, the least and the greatest among them.
    fn all_sizes() -> impl Iterator<Item = u32> {
        (0..32).flat_map(|shift| {
            (0..2000u32).map(move |i| (u32::MAX - i.wrapping_mul(2_147_001)) >> shift)
        })
    }

    #[test]
    fn double_logarithms() {
        for u in all_sizes().flat_map(|u| [u | 1, !u | 1]) {
            let exact = -(-(f64::from(u) / 4_294_967_296.0).log2()).log2();
            let got = f64::from(double_log2(u)) * UNIT;
            assert!((got - exact).abs() < 6.0 * UNIT, "{u}: {got} for {exact}");
        }
    }

    #[test]
    fn powers() {
        assert_eq!(exp2(0), ONE);
        assert_eq!(exp2(u32::MAX), 0);
        assert_eq!([31, 32, 33].map(|octaves| exp2(octaves << FRACTION)), [1, 0, 0]);
        assert_eq!((exp2_mantissa(0), exp2_mantissa(7 << FRACTION)), (ONE, ONE));
        for distance in all_sizes() {
            let exact = (-f64::from(distance) * UNIT).exp2();
            let got = f64::from(exp2(distance)) / f64::from(ONE);
            assert!((got - exact).abs() < 1.2e-9, "{distance}: {got} for {exact}");
            let mantissa = f64::from(exp2_mantissa(distance)) / f64::from(ONE);
            let exact = (-(f64::from(distance) * UNIT).fract()).exp2();
            assert!((mantissa - exact).abs() < 1.2e-9, "{distance}: {mantissa} for {exact}");
        }
    }

    #[test]
    fn products() {
        let values = [0.0, 1e-40, 1e-30, 0.1, 1.0, 1.5, 3.0, 88.0, 1e30, f32::INFINITY];
        for factor in [1e-25, 0.3, 1.0, 48_408_812.0, 1e30, 1e50] {
            let scale = Scale::new(factor);
            for value in values {
                let exact = f64::from(value) * factor;
                let got = scale.times(value);
                // saturated values are above all distances that matter
                if got == u32::MAX {
                    assert!(exact >= 2f64.powi(31), "{value} · {factor}");
                } else if value != 1e-40 {
                    let least = (exact * (1.0 - 2e-9)).floor();
                    assert!(
                        f64::from(got) >= least && f64::from(got) <= exact,
                        "{value} · {factor}"
                    );
                }
            }
        }
        assert_eq!(Scale::new(1e50).times(1e-40), 0);
    }
}
