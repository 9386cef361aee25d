//! Norms of rows and heads.

use crate::WeightId;

/// The formula of a norm, before factors and summands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NormKind {
    /// `x / sqrt(mean(x²) + eps)` (RMSNorm, arXiv 1910.07467).
    Rms,
    /// `(x - mean(x)) / sqrt(variance(x) + eps)` (LayerNorm, arXiv 1607.06450).
    Layer,
    /// `x / sqrt(Σ x² + eps)`.
    L2,
}

/// A norm of rows or heads: `y[i] = weight[i] · normed(x)[i] + bias[i]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norm {
    /// The formula.
    pub kind: NormKind,
    /// The factors `[row_len]`; `None` for 1.
    pub weight: Option<WeightId>,
    /// The summands `[row_len]`; `None` for 0.
    pub bias: Option<WeightId>,
    /// Added under the root; in (0, 1).
    pub eps: f32,
}

impl Norm {
    /// A root-mean-square norm with factors.
    pub const fn rms(weight: WeightId, eps: f32) -> Self {
        Self { kind: NormKind::Rms, weight: Some(weight), bias: None, eps }
    }

    /// The factors of a root-mean-square norm that has factors and no summands: the form that
    /// fused ops have.
    pub fn rms_weight(&self) -> Option<WeightId> {
        match *self {
            Self { kind: NormKind::Rms, weight, bias: None, eps: _ } => weight,
            _ => None,
        }
    }

    /// Its weights: factors, then summands.
    pub fn weights(&self) -> impl Iterator<Item = WeightId> {
        self.weight.into_iter().chain(self.bias)
    }
}
