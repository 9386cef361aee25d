//! Log-probabilities under the softmax of raw logits.

use crate::{
    FixedParams,
    distance::{any_reaches, distance, floor},
    fixed_point::{FRACTION, exp2_mantissa},
    greatest::greatest,
};

/// Logits that are skipped together where all of them have no weight.
const CHUNK: usize = 64;
/// Binary digits after the point of [`LogSum::sum`].
const SUM_FRACTION: u32 = 44;
/// The least distance at which a term of the sum is 0.
const NO_TERM: u32 = (SUM_FRACTION + 1) << FRACTION;

/// The sum of exponentials of logits (log-sum-exp), in integers. Its value does not depend on the
/// order of summation, so every backend computes the same bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogSum {
    /// The greatest logit `g` that is not NaN; -∞ if there is none.
    pub greatest: f32,
    /// The sum of `exp(l - g)` over all logits `l` that are not NaN, in units of 2⁻⁴⁴.
    pub sum: u64,
}

impl LogSum {
    /// The sum over `logits`.
    pub fn of(logits: &[f32]) -> Self {
        let greatest =
            greatest(logits).map_or(f32::NEG_INFINITY, |likeliest| logits[likeliest as usize]);
        let floor = floor(greatest, NO_TERM - 1, FixedParams::NATURAL);
        let mut sum = 0u64;
        for chunk in logits.chunks(CHUNK).filter(|chunk| any_reaches(floor, chunk)) {
            for &logit in chunk.iter().filter(|&&logit| logit >= floor) {
                sum = sum.wrapping_add(term(distance(greatest, logit, FixedParams::NATURAL)));
            }
        }
        Self { greatest, sum }
    }

    /// The natural log-probability of a token of this logit.
    pub fn log_prob(&self, logit: f32) -> f32 {
        // the difference of equal infinities is 0 too
        let difference = match logit == self.greatest {
            true => 0.0,
            false => f64::from(logit) - f64::from(self.greatest),
        };
        let unit = (1u64 << SUM_FRACTION) as f64;
        (difference - (self.sum as f64 / unit).ln()) as f32
    }
}

/// `2^-distance` in units of 2⁻⁴⁴, rounded down.
fn term(distance: u32) -> u64 {
    let mantissa = u64::from(exp2_mantissa(distance)) << (SUM_FRACTION - 31);
    mantissa >> (distance >> FRACTION).min(63)
}
