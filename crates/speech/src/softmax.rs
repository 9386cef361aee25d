//! Log-probabilities of a row of logits.
//!
//! A window of five beams takes five of these in each step, so the exponentials are computed in
//! vectors. A polynomial gives the fraction of the power of two, and the exponent's bits its whole
//! part.

use std::f32::consts::{LN_2, LOG2_E};

/// Values of a vector.
const LANES: usize = 16;
/// Terms that are summed in f32 before they enter a sum in f64: 64 a lane.
const CHUNK: usize = 64 * LANES;
/// Powers of two below this are 0, relative to the sum of at least 1.
const LEAST: f32 = -126.0;
/// Added to a number below 2²², this rounds it to a whole one in the lowest bits.
const ROUND: f32 = 12_582_912.0;
/// `ln(2)ᵏ / k!`, the series of `2^x`: for `x` of at most 1/2 its error is below 10⁻⁸.
const SERIES: [f32; 8] = [
    1.0,
    LN_2,
    0.240_226_5,
    0.055_504_11,
    0.009_618_129,
    0.001_333_355_8,
    0.000_154_035_3,
    0.000_015_252_734,
];

/// The logarithm of a sum of exponentials.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LogSumExp {
    /// The greatest logit `g`; -∞ if no logit is a number above it.
    pub(crate) greatest: f32,
    /// The logarithm of the sum of `exp(l - g)`, at least 0; 0 without logits.
    pub(crate) rest: f64,
}

impl LogSumExp {
    /// The sum over logits; NaN counts as -∞.
    pub(crate) fn of(logits: &[f32]) -> Self {
        let greatest = greatest(logits);
        if greatest == f32::NEG_INFINITY {
            return Self { greatest, rest: 0.0 };
        }
        if greatest == f32::INFINITY {
            // infinite logits are equally likely, and all others impossible
            let count = logits.iter().filter(|&&logit| logit == greatest).count();
            return Self { greatest, rest: (count as f64).ln() };
        }
        let sum: f64 = logits.chunks(CHUNK).map(|chunk| exponentials(chunk, greatest)).sum();
        Self { greatest, rest: sum.ln().max(0.0) }
    }

    /// The log-probability of a logit of the row.
    pub(crate) fn log_prob(&self, logit: f32) -> f64 {
        match logit == self.greatest {
            // the difference of equal infinities too
            true => -self.rest,
            false if logit.is_nan() => f64::NEG_INFINITY,
            false => f64::from(logit) - f64::from(self.greatest) - self.rest,
        }
    }
}

/// The greatest logit; -∞ if there is none.
pub(crate) fn greatest(logits: &[f32]) -> f32 {
    let mut most = [f32::NEG_INFINITY; LANES];
    let greater = |a: f32, b: f32| if b > a { b } else { a };
    let (vectors, rest) = logits.as_chunks::<LANES>();
    for vector in vectors {
        for (most, &logit) in most.iter_mut().zip(vector) {
            *most = greater(*most, logit);
        }
    }
    most.into_iter().chain(rest.iter().copied()).fold(f32::NEG_INFINITY, greater)
}

/// The sum of `exp(l - greatest)`.
fn exponentials(logits: &[f32], greatest: f32) -> f64 {
    let mut sums = [0.0f32; LANES];
    let (vectors, rest) = logits.as_chunks::<LANES>();
    for vector in vectors {
        for (sum, &logit) in sums.iter_mut().zip(vector) {
            *sum += power((logit - greatest) * LOG2_E);
        }
    }
    let rest = rest.iter().map(|&logit| power((logit - greatest) * LOG2_E));
    sums.into_iter().chain(rest).map(f64::from).sum()
}

/// `2^x` for `x` of at most 0.
fn power(x: f32) -> f32 {
    // for NaN too
    let x = if x > LEAST { x } else { LEAST };
    let rounded = x + ROUND;
    let fraction = x - (rounded - ROUND);
    let series = SERIES.iter().rev().fold(0.0, |sum, c| sum * fraction + c);
    // the lowest bits of `rounded` are the whole part, which moves to the exponent
    let whole = f32::from_bits((rounded.to_bits() << 23).wrapping_add(1.0f32.to_bits()));
    series * whole
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compared with sums in f64 over rows of 1 to 2,000 logits.
    #[test]
    fn sums_in_f64() {
        let mut random = fastrand::Rng::with_seed(7);
        for n in (1..60).chain([100, 1000, 1024, 1025, 2000]) {
            let scale = [0.1, 3.0, 30.0, 400.0][n % 4];
            let logits: Vec<f32> = (0..n).map(|_| (random.f32() - 0.7) * scale).collect();
            let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let sum: f64 = logits.iter().map(|l| f64::from(l - most).exp()).sum();
            let found = LogSumExp::of(&logits);
            assert_eq!(found.greatest, most);
            assert!((found.rest - sum.ln()).abs() < 1e-6, "{n}: {} for {}", found.rest, sum.ln());
            let expected = f64::from(logits[0]) - f64::from(most) - sum.ln();
            assert!((found.log_prob(logits[0]) - expected).abs() < 1e-5);
        }
    }

    #[test]
    fn logits_that_are_no_numbers() {
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        assert_eq!(LogSumExp::of(&[]), LogSumExp { greatest: -inf, rest: 0.0 });
        assert_eq!(LogSumExp::of(&[nan, -inf]), LogSumExp { greatest: -inf, rest: 0.0 });
        let sum = LogSumExp::of(&[nan, 1.0, -inf]);
        assert_eq!((sum.log_prob(1.0), sum.log_prob(-inf)), (0.0, f64::NEG_INFINITY));
        assert_eq!(sum.log_prob(nan), f64::NEG_INFINITY);
        let sum = LogSumExp::of(&[inf, 1.0, inf]);
        assert_eq!((sum.log_prob(inf), sum.log_prob(1.0)), (-(2f64.ln()), f64::NEG_INFINITY));
    }
}
