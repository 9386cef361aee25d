//! Mixtures of experts.

use crate::{Error, WeightId};

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

/// The choice of experts. It has scores, the `used` greatest of `scores + bias` in descending
/// order, ties to the lowest id, and the weights of the chosen ones from the scores without bias.
/// For the choice a score or a sum of a group that is no number counts as minus infinity.
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

/// The LoRA adapters (arXiv 2106.09685) of each row: those of its slot, which
/// [`Executable::set_adapters`](crate::Executable::set_adapters) sets.
///
/// Their products are those of experts: `y += Σ_s weights[s] · b[ids[s]]·(a[ids[s]]·x)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adapters {
    /// Adapters of the plan; every id is below it.
    pub count: usize,
    /// Ids and weights of a row, at most `count`. Those that a slot does not use have weight 0.
    pub used: usize,
}

impl Adapters {
    /// The ids `[used]` and the weights `[used]` of a slot's adapters, one after the other: the
    /// given adapters with their factors, then other ones with weight 0.
    ///
    /// # Errors
    ///
    /// [`Error::Pass`] if an adapter does not exist or is given twice, if there are too many, or if
    /// a factor is not finite.
    pub fn row(&self, adapters: &[(u32, f32)]) -> Result<Vec<f32>, Error> {
        let &Self { count, used } = self;
        if adapters.len() > used {
            let found = adapters.len();
            return Err(Error::Pass(format!(
                "{found} adapters of a slot, expected at most {used}"
            )));
        }
        for (i, &(id, factor)) in adapters.iter().enumerate() {
            let twice = adapters[..i].iter().any(|&(other, _)| other == id);
            if id as usize >= count || twice || !factor.is_finite() {
                return Err(Error::Pass(format!(
                    "adapter {id} with factor {factor}, expected different ones of {count} with \
                     finite factors"
                )));
            }
        }
        let others = (0..count as u32).filter(|id| adapters.iter().all(|(other, _)| other != id));
        let all = adapters.iter().copied().chain(others.map(|id| (id, 0.0))).take(used);
        let (ids, factors): (Vec<f32>, Vec<f32>) = all.map(|(id, f)| (id as f32, f)).unzip();
        Ok([ids, factors].concat())
    }
}
