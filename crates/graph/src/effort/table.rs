//! The calibration of a model: the scores of each matrix's inputs.

use std::sync::Arc;

use pelton_quant::BUCKET;

use super::{form::Effort, scores::InputScores};
use crate::{EffortForm, Weight};

/// The scores of the inputs of one matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct MatrixScores {
    /// The name of its tensor.
    pub tensor: String,
    /// The first of its rows in the tensor.
    pub first: usize,
    /// The quantiles of the scores.
    pub scores: InputScores,
}

/// The calibration of a model: the scores of its matrices in [`EffortForm::Nested`], by which the
/// thresholds of live inputs are chosen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EffortTable(Vec<MatrixScores>);

impl EffortTable {
    /// The scores of matrices.
    pub const fn new(matrices: Vec<MatrixScores>) -> Self {
        Self(matrices)
    }

    /// The scores of its matrices.
    pub fn matrices(&self) -> &[MatrixScores] {
        &self.0
    }

    /// The scores of a weight's inputs, if the table has them.
    pub fn scores(&self, weight: &Weight) -> Option<&InputScores> {
        let of = |one: &&MatrixScores| one.tensor == weight.name && one.first == weight.first();
        self.0.iter().find(of).map(|one| &one.scores)
    }

    /// Refuses a table that lacks the scores of one of a plan's weights.
    ///
    /// # Errors
    ///
    /// A sentence about the first such matrix.
    pub fn check(&self, weights: &[Weight]) -> Result<(), String> {
        let lacks = |weight: &&Weight| {
            weight.form() == Some(EffortForm::Nested) && self.scores(weight).is_none()
        };
        match weights.iter().find(lacks) {
            None => Ok(()),
            Some(weight) => Err(format!(
                "no scores of the tensor '{}' from row {} on, expected those of all matrices",
                weight.name,
                weight.first()
            )),
        }
    }
}

/// The thresholds of a matrix's live inputs. By default all inputs with a score above 0 are live.
#[derive(Clone, Debug, PartialEq)]
pub struct EffortCurve {
    /// The thresholds at the efforts `i / 63`, descending.
    thresholds: [f32; InputScores::COUNT],
}

impl Default for EffortCurve {
    fn default() -> Self {
        Self { thresholds: [0.0; InputScores::COUNT] }
    }
}

impl EffortCurve {
    /// The thresholds for scores.
    pub fn new(scores: &InputScores) -> Self {
        let fraction = |i: usize| i as f64 / (InputScores::COUNT - 1) as f64;
        Self { thresholds: std::array::from_fn(|i| scores.threshold(fraction(i))) }
    }

    /// The least score, by its bits, of the inputs that are live at an effort: the next above the
    /// threshold. An input is live if its score exceeds that or is NaN. All inputs are live at 0.
    ///
    /// A score is the magnitude of the f32 product of the input and the norm of its weights. A
    /// lower half of its codes is live if that score times the f32 nearest to 1 /
    /// [`LOWER_HALF`](crate::LOWER_HALF) is as great.
    pub fn least(&self, effort: Effort) -> u32 {
        if effort.is_full() {
            return 0;
        }
        let at = effort.fraction() * (InputScores::COUNT - 1) as f64;
        let below = (at as usize).min(InputScores::COUNT - 2);
        let [low, high] = [self.thresholds[below], self.thresholds[below + 1]].map(f64::from);
        let threshold = (low + (high - low) * (at - below as f64)) as f32;
        threshold.to_bits() + 1
    }
}

/// The options of a plan's rows of an effort below 1.
#[derive(Clone, Debug, PartialEq)]
pub struct EffortOptions {
    /// The scores of each matrix in [`EffortForm::Nested`].
    pub table: Option<Arc<EffortTable>>,
    /// The ranks of sorted buckets that are kept, 1 to [`BUCKET`].
    pub ranks: usize,
}

/// No scores, and all ranks.
impl Default for EffortOptions {
    fn default() -> Self {
        Self { table: None, ranks: BUCKET }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scores from 0 to 63: upper halves are live above t and lower ones above 9.2 t.
    #[test]
    fn thresholds_are_interpolated() {
        let scores = InputScores::new(std::array::from_fn(|i| i as f32));
        let Ok(scores) = scores else { return assert_eq!(scores.err(), None) };
        let curve = EffortCurve::new(&scores);
        for (effort, expected) in [(0.8, 0.4 / 10.2), (0.5, 1.0 / 10.2), (0.25, 0.5)] {
            let least = Effort::new(effort).map_or(0, |effort| curve.least(effort));
            let threshold = f64::from(f32::from_bits(least.saturating_sub(1)));
            assert!((threshold - 63.0 * expected).abs() < 0.05, "{effort}: {threshold}");
        }
        assert_eq!(curve.least(Effort::FULL), 0);
    }

    #[test]
    fn a_part_of_a_fused_tensor_has_scores_of_its_own() {
        let scores = InputScores::new([0.0; InputScores::COUNT]);
        let Ok(scores) = scores else { return assert_eq!(scores.err(), None) };
        let name = "blk.3.attn_k.weight";
        let table = EffortTable::new(vec![MatrixScores { tensor: name.into(), first: 0, scores }]);
        let (dtype, kind) = (pelton_quant::DType::Q8_0, crate::WeightKind::Matrix);
        let of = |part| {
            let name = name.into();
            Weight { name, dtype, kind, rows: 8, row_len: 32, part, marked: true }
        };
        assert_eq!(table.scores(&of(None)), Some(&scores));
        assert_eq!(table.scores(&of(Some(crate::Part { first: 4, of: 8 }))), None);
    }
}
