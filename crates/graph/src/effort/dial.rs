//! Effort: how much of its inputs a row multiplies.

use std::{cmp::Ordering, fmt};

/// How much of its inputs a row multiplies with each [marked](crate::Weight::effort) matrix. It
/// multiplies those of the greatest score: the input's magnitude times the norm of its weights.
///
/// It is one of two dials. One is a fraction of the inputs. The other is the share of the sum of
/// squared scores that the live inputs make up, the fewest that do. Both are above 0 and at most 1,
/// the whole product.
#[derive(Clone, Copy, PartialEq)]
pub struct Effort {
    amount: f64,
    energy: bool,
}

/// The dial of an [`Effort`], and its value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Dial {
    /// The fraction of inputs.
    Inputs(f64),
    /// The share of the sum of squared scores, below 1.
    Energy(f64),
}

/// It is never NaN.
impl Eq for Effort {}

/// Efforts of one dial have an order; the whole product is above all others.
impl PartialOrd for Effort {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self.energy == other.energy || self.is_full() || other.is_full() {
            true => self.amount.partial_cmp(&other.amount),
            false => None,
        }
    }
}

impl Effort {
    /// All inputs.
    pub const FULL: Self = Self { amount: 1.0, energy: false };

    /// A fraction of the inputs, above 0 and at most 1; `None` for any other number.
    pub fn new(fraction: f64) -> Option<Self> {
        let is_valid = fraction > 0.0 && fraction <= 1.0;
        is_valid.then_some(Self { amount: fraction, energy: false })
    }

    /// The fewest inputs whose squared scores make up a share of the sum of all, above 0 and at most
    /// 1, which is all inputs; `None` for any other number.
    pub fn energy(share: f64) -> Option<Self> {
        let effort = Self::new(share)?;
        Some(Self { energy: !effort.is_full(), ..effort })
    }

    /// The dial and its value.
    pub const fn dial(self) -> Dial {
        match self.energy {
            true => Dial::Energy(self.amount),
            false => Dial::Inputs(self.amount),
        }
    }

    /// Whether it is 1.
    pub fn is_full(self) -> bool {
        self.amount >= 1.0
    }

    /// Whether its dial is the share of squared scores.
    pub const fn is_energy(self) -> bool {
        self.energy
    }

    /// The number of live ones of `inputs` inputs: the fraction of them, rounded up; at most all of
    /// them where the scores decide.
    pub fn live(self, inputs: usize) -> usize {
        if self.energy {
            return inputs;
        }
        // the product of 0.07 and 100 is 7.000000000000001
        let live = (self.amount * inputs as f64 * (1.0 - 2.0 * f64::EPSILON)).ceil();
        (live as usize).clamp(1, inputs.max(1))
    }

    /// The share of the sum of squared scores that the inputs without a product may make up, next
    /// to those that make up `share`, rounded up: 24 bits of it decide on every backend.
    pub fn left_out(share: f64) -> f32 {
        let rest = 1.0 - share;
        let rounded = rest as f32;
        if f64::from(rounded) < rest { rounded.next_up() } else { rounded }
    }

    /// The index, among `count` ascending magnitudes, of the one above which the fraction of all
    /// is. `None` if nothing is left out, and where the scores decide.
    pub fn cutoff(self, count: usize) -> Option<usize> {
        if self.is_full() || self.energy {
            return None;
        }
        let last = count.checked_sub(1)?;
        Some(((1.0 - self.amount) * last as f64).floor() as usize)
    }

    /// A number that tells it from all others, as a key.
    pub const fn bits(self) -> u64 {
        // amounts have no sign
        self.amount.to_bits() | (self.energy as u64) << 63
    }
}

impl Default for Effort {
    fn default() -> Self {
        Self::FULL
    }
}

impl fmt::Debug for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Effort({self})")
    }
}

/// `0.5`, or `energy:0.99`.
impl fmt::Display for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.energy {
            f.write_str("energy:")?;
        }
        self.amount.fmt(f)
    }
}

/// The order in which the marked matrices of a plan are kept, and what is left out of a product of an
/// effort below 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EffortMode {
    /// Whole inputs, of weights in the formats of the file.
    #[default]
    Channel,
    /// Inputs, or the lower halves of their codes, of weights in Q8_0.
    Nested,
    /// Single weights, sorted within buckets of outputs
    /// ([`BucketFormat`](pelton_quant::BucketFormat)).
    Bucket,
}

/// In [`EffortMode::Nested`] the ratio of the scores at which an input and at which the lower half of its
/// codes are worth the same bytes: the lower half changes a result by so much less.
pub const LOWER_HALF: f32 = 9.2;

impl EffortMode {
    /// Its name on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Channel => "channel",
            Self::Nested => "nested",
            Self::Bucket => "bucket",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions() {
        for wrong in [0.0, -0.0, -0.5, 1.0 + 1e-9, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(Effort::new(wrong), None, "{wrong}");
        }
        assert_eq!(Effort::new(1.0), Some(Effort::FULL));
        assert!(Effort::new(1e-300).is_some_and(|effort| effort.live(1 << 20) == 1));
        for wrong in [0.0, -0.5, 1.5, f64::NAN] {
            assert_eq!(Effort::energy(wrong), None, "{wrong}");
        }
        assert_eq!(Effort::energy(1.0), Some(Effort::FULL));
    }

    #[test]
    fn two_dials() {
        let all = [Effort::new(0.5), Effort::energy(0.5), Effort::new(0.7), Effort::energy(0.7)];
        let [half, energy, more, more_energy] = all.map(Option::unwrap_or_default);
        assert!(half < more && energy < more_energy && energy < Effort::FULL);
        assert_eq!(half.partial_cmp(&more_energy), None);
        assert!(half != energy && half.bits() != energy.bits());
        assert_eq!([half, energy].map(|e| e.to_string()), ["0.5", "energy:0.5"]);
        assert_eq!([half, energy].map(Effort::dial), [Dial::Inputs(0.5), Dial::Energy(0.5)]);
        assert_eq!(energy.live(100), 100);
    }

    #[test]
    fn what_may_be_left_out_is_rounded_up() {
        for share in [1e-9, 0.1, 0.5, 0.9, 0.99, 0.999_999, 1.0 - f64::EPSILON] {
            let rest = f64::from(Effort::left_out(share));
            assert!((1.0 - share..=1.0).contains(&rest), "{share}: {rest}");
            assert!(rest <= (1.0 - share) * (1.0 + 2.0_f64.powi(-23)), "{share}: {rest}");
        }
    }

    #[test]
    fn cutoffs_are_indices_below_the_last() {
        let of = |fraction| Effort::new(fraction).and_then(|effort| effort.cutoff(4096));
        assert_eq!([0.75, 0.5, 1e-300].map(of), [Some(1023), Some(2047), Some(4095)]);
        assert_eq!(Effort::FULL.cutoff(4096), None);
        assert_eq!(Effort::energy(0.5).and_then(|effort| effort.cutoff(4096)), None);
    }

    /// Every fraction of two whole numbers, compared with arithmetic in whole numbers.
    #[test]
    fn live_inputs_are_rounded_up() {
        for of in [7_usize, 10, 100, 1000] {
            for part in 1..=of {
                for inputs in [1, 3, 32, 100, 2048, 5632, 14336] {
                    let effort = Effort::new(part as f64 / of as f64).unwrap_or_default();
                    let expected = (part * inputs).div_ceil(of);
                    assert_eq!(effort.live(inputs), expected, "{part}/{of} of {inputs}");
                }
            }
        }
    }
}
