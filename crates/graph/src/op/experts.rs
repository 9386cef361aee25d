//! Mixtures of experts.

use crate::WeightId;

/// The function from router logits to scores of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scores {
    /// The softmax of all logits.
    Softmax,
    /// The sigmoid of each logit.
    Sigmoid,
    /// The logits themselves; the softmax of the chosen ones are their weights.
    SelectedSoftmax,
}

/// Groups of experts of equal size, of which only the best are considered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpertGroups {
    /// Groups; a divisor of the number of experts.
    pub count: usize,
    /// Groups that are considered.
    pub used: usize,
    /// The number of greatest scores in a group whose sum is the group's score: 1 or 2.
    pub best: usize,
}

/// The choice of experts: scores, the `used` greatest of `scores + bias` in descending order, ties
/// to the lowest id, and the weights of the chosen ones from the scores without bias.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Route {
    /// Experts; the width of the logits.
    pub experts: usize,
    /// Chosen experts of a row.
    pub used: usize,
    /// The scores.
    pub scores: Scores,
    /// Added to the scores for the choice only `[experts]`.
    pub bias: Option<WeightId>,
    /// Groups that limit the choice.
    pub groups: Option<ExpertGroups>,
    /// Whether the weights are divided by their sum, at least 2⁻¹⁴.
    pub normalize: bool,
    /// The factor of all weights, after the division.
    pub scale: f32,
    /// A factor of each expert's weight `[experts]`.
    pub expert_scale: Option<WeightId>,
}

/// Matrix products with one matrix of many, chosen row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpertLinear {
    /// The matrices `[experts, outputs, inputs]`.
    pub weight: WeightId,
    /// The summands `[experts, outputs]`.
    pub bias: Option<WeightId>,
    /// Chosen experts of a row.
    pub used: usize,
}
