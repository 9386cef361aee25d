//! Effort: the fraction of its inputs that a row multiplies.

use std::fmt;

use crate::{Error, Op, Plan, WeightKind};

/// The matrices whose products can have an effort below 1: of attention and of the feed-forward
/// network, but not the embedding, the output, routers and adapters.
const MARKED: [&str; 8] = [
    "attn_q.weight",
    "attn_k.weight",
    "attn_v.weight",
    "attn_qkv.weight",
    "attn_output.weight",
    "ffn_gate.weight",
    "ffn_up.weight",
    "ffn_down.weight",
];

/// The fraction of inputs that a row multiplies with each [marked](crate::Weight::effort) matrix:
/// those of the greatest product of magnitude and norm of the input's weights. Above 0 and at most
/// 1, which is the whole product.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub struct Effort(f64);

/// It is never NaN.
impl Eq for Effort {}

impl Effort {
    /// All inputs.
    pub const FULL: Self = Self(1.0);

    /// An effort above 0 and at most 1; `None` for any other number.
    pub fn new(fraction: f64) -> Option<Self> {
        (fraction > 0.0 && fraction <= 1.0).then_some(Self(fraction))
    }

    /// The fraction.
    pub const fn get(self) -> f64 {
        self.0
    }

    /// Whether it is 1.
    pub fn is_full(self) -> bool {
        self.0 >= 1.0
    }

    /// The number of live ones of `inputs` inputs: the fraction of them, rounded up.
    pub fn live(self, inputs: usize) -> usize {
        // the product of 0.07 and 100 is 7.000000000000001
        let live = (self.0 * inputs as f64 * (1.0 - 2.0 * f64::EPSILON)).ceil();
        (live as usize).clamp(1, inputs.max(1))
    }

    /// The bits of the fraction, as a key.
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
        write!(f, "Effort({})", self.0)
    }
}

impl fmt::Display for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Plan {
    /// The plan with [`Weight::effort`](crate::Weight::effort) set for the matrices of queries,
    /// keys, values and the output of attention, and of the feed-forward network, so that rows can
    /// have an effort below 1.
    ///
    /// # Errors
    ///
    /// [`Error::Effort`] if there is no such matrix.
    pub fn with_effort(mut self) -> Result<Self, Error> {
        let mut linears = Vec::new();
        for step in &self.steps {
            match &step.op {
                Op::Linear(_) | Op::LinearAdd(_) | Op::NormLinear { .. } | Op::NormGlu { .. } => {
                    linears.extend(step.op.weights())
                }
                _ => {}
            }
        }
        let mut found = false;
        for id in linears {
            let weight = &mut self.weights[id.0];
            let name = weight.name.strip_prefix("blk.").and_then(|name| name.split_once('.'));
            if weight.kind == WeightKind::Matrix
                && name.is_some_and(|(_, name)| MARKED.contains(&name))
            {
                weight.effort = true;
                found = true;
            }
        }
        match found {
            true => Ok(self),
            false => Err(Error::Effort(
                "the model has no matrices of attention or of a feed-forward network that effort \
                 applies to"
                    .to_owned(),
            )),
        }
    }

    /// Whether rows can have an effort below 1.
    pub fn has_effort(&self) -> bool {
        self.weights.iter().any(|weight| weight.effort)
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
