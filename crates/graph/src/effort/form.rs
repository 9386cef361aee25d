//! Effort: how much of its inputs a row multiplies.

use std::fmt;

use pelton_quant::DType;

/// The fraction of its inputs that a row multiplies with the [marked](crate::Weight::marked)
/// matrices, above 0 and at most 1, the whole product. It is a mean over the rows of a text: an
/// input is multiplied where its score exceeds the matrix's threshold for the effort
/// ([`EffortCurve`](crate::EffortCurve)).
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub struct Effort(f64);

/// It is never NaN.
impl Eq for Effort {}

impl Effort {
    /// All inputs.
    pub const FULL: Self = Self(1.0);

    /// A fraction of the inputs, above 0 and at most 1; `None` for any other number.
    pub fn new(fraction: f64) -> Option<Self> {
        (fraction > 0.0 && fraction <= 1.0).then_some(Self(fraction))
    }

    /// The fraction of the inputs.
    pub const fn fraction(self) -> f64 {
        self.0
    }

    /// Whether it is 1.
    pub fn is_full(self) -> bool {
        self.0 >= 1.0
    }

    /// The index, among `count` ascending magnitudes, of the one above which the fraction of all
    /// is. `None` if nothing is left out.
    pub fn cutoff(self, count: usize) -> Option<usize> {
        let last = count.checked_sub(1).filter(|_| !self.is_full())?;
        Some(((1.0 - self.0) * last as f64).floor() as usize)
    }

    /// A number that tells it from all others, as a key.
    pub const fn bits(self) -> u64 {
        self.0.to_bits()
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

impl fmt::Display for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The parts of a product that a row of an effort below 1 leaves out. They follow from the format
/// of the weights alone, and a backend [has the form or not](crate::Backend::has_effort).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EffortForm {
    /// Inputs, or the lower halves of their codes, of weights in Q8_0.
    Nested,
    /// Single weights, sorted within buckets of outputs
    /// ([`pack_buckets`](pelton_quant::pack_buckets)), of weights in F16, BF16 and F32.
    Bucket,
}

impl EffortForm {
    /// All forms.
    pub const ALL: [Self; 2] = [Self::Nested, Self::Bucket];

    /// The form of weights in a format; `None` if rows of every effort multiply them whole.
    pub const fn of(dtype: DType) -> Option<Self> {
        match dtype {
            DType::Q8_0 => Some(Self::Nested),
            DType::F16 | DType::BF16 | DType::F32 => Some(Self::Bucket),
            _ => None,
        }
    }
}

/// In [`EffortForm::Nested`] the ratio of the scores at which an input and at which the lower half
/// of its codes are worth the same bytes: the lower half changes a result by so much less.
pub const LOWER_HALF: f32 = 9.2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions() {
        for wrong in [0.0, -0.0, -0.5, 1.0 + 1e-9, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(Effort::new(wrong), None, "{wrong}");
        }
        assert_eq!(Effort::new(1.0), Some(Effort::FULL));
        assert!(Effort::new(0.5) < Some(Effort::FULL));
    }

    #[test]
    fn cutoffs_are_indices_below_the_last() {
        let of = |fraction| Effort::new(fraction).and_then(|effort| effort.cutoff(4096));
        assert_eq!([0.75, 0.5, 1e-300].map(of), [Some(1023), Some(2047), Some(4095)]);
        assert_eq!(Effort::FULL.cutoff(4096), None);
    }
}
