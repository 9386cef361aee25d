//! Logarithms and powers of two in whole numbers.
//!
//! The `ln` and `exp` of processors, systems and devices differ in the last bits, and now and then
//! that would choose another token. Sums and products of whole numbers are the same everywhere, so
//! the same logits and seed give the same text everywhere; and a sum of them does not depend on its
//! order, so that a device may share it out.

/// Binary digits after the point of logarithms and distances.
pub const FRACTION: u32 = 25;

/// A weight of 1.
pub const ONE: u32 = 1 << 31;

/// `log2(1 + t) / t` for `t` in -1/4 to 1/2, as `c₀ - s·(c₁ - s·(c₂ - …))` with `s = t + 1/4` and
/// coefficients in units of 2⁻³⁰: the polynomial through the function at the ten Chebyshev points
/// of the interval, off by less than 10⁻⁸.
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
/// seven Chebyshev points, off by less than 10⁻⁹.
pub const EXP2: [u32; 7] =
    [1_488_522_236, 515_882_469, 119_193_747, 20_652_244, 2_856_024, 319_744, 24_275];

/// The upper half of a product.
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
    /// The power of two that it is multiplied with.
    pub exponent: i32,
}

impl Scale {
    /// A positive, finite, normal number, rounded down to 32 binary digits.
    pub(crate) fn new(value: f64) -> Self {
        let bits = value.to_bits();
        let mantissa = (bits >> 21) as u32 | 1 << 31;
        Self { mantissa, exponent: (bits >> 52) as i32 - 1023 - 31 }
    }

    /// About what it is.
    pub(crate) fn value(self) -> f32 {
        self.mantissa as f32 * (self.exponent as f32).exp2()
    }

    /// `value` times this, rounded down; `u32::MAX` for what is too much. `value` is not negative
    /// and no NaN; one that is subnormal counts as 0, since devices may take it for that.
    pub(crate) fn times(self, value: f32) -> u32 {
        let bits = value.to_bits();
        let exponent = (bits >> 23) as i32;
        if exponent == 0 {
            return 0;
        }
        // value = m · 2^(exponent - 127 - 31), and the upper half of the product loses 2³²
        let m = bits << 8 | 1 << 31;
        let shift = exponent - 126 + self.exponent;
        match shift {
            _ if exponent == 255 || shift > 0 => u32::MAX,
            -31..=0 => mulhi(m, self.mantissa) >> -shift,
            _ => 0,
        }
    }
}

/// `2^-distance` in units of 2⁻³¹, for a distance in units of 2⁻²⁵.
pub(crate) fn exp2(distance: u32) -> u32 {
    let f = distance << (32 - FRACTION);
    (ONE - mulhi(f, alternating(&EXP2, f))) >> (distance >> FRACTION).min(31)
}

/// The parts of `log2(m / 2³¹)` for an `m` with the highest bit set: it is `part` in units of 2⁻³⁰,
/// or, with `upper`, 1 less `part`.
struct Log {
    upper: bool,
    /// The distance of m from 2³¹ or 2³², in units of 2⁻³² of that.
    t: u32,
    /// What `t` is multiplied with, in units of 2⁻³⁰.
    factor: u32,
}

impl Log {
    /// So that the argument of the polynomial is small near 1, the upper half of the octave is
    /// taken relative to its end.
    fn new(m: u32) -> Self {
        let upper = m >= 3 << 30;
        let t = if upper { m.wrapping_neg() } else { m << 1 };
        let s = if upper { (1 << 30) - t } else { (1 << 30) + t };
        Self { upper, t, factor: alternating(&LOG2, s) }
    }
}

/// `-log2(-log2(u))` for the odd number `u` in units of 2⁻³², in units of 2⁻²⁵.
pub(crate) fn double_log2(u: u32) -> i32 {
    // -log2(u) as a whole number and what that must be multiplied with, a power of two
    let zeros = u.leading_zeros();
    let log = Log::new(u << zeros);
    let (number, exponent) = match (log.upper, zeros) {
        // close to 0, where all digits are needed
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

    /// Numbers of all sizes, the smallest and the largest among them.
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
        for distance in all_sizes() {
            let exact = (-f64::from(distance) * UNIT).exp2();
            let got = f64::from(exp2(distance)) / f64::from(ONE);
            assert!((got - exact).abs() < 1.2e-9, "{distance}: {got} for {exact}");
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
                // whatever is saturated is more than the distances that matter
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
