//! The calibration of a model: the scores of each matrix's inputs, and the fraction of an effort
//! that each kind of matrix and each layer has.

use std::{ops::RangeInclusive, sync::Arc};

use pelton_quant::BUCKET;

use super::{
    dial::{Effort, EffortMode},
    scores::InputScores,
};
use crate::Weight;

/// The matrices of a layer that have a fraction together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EffortKind {
    /// Queries, keys and values, which multiply the same inputs.
    Attention,
    /// The output of attention.
    AttentionOutput,
    /// The gate and the up projection of the feed-forward network.
    GateUp,
    /// Its down projection.
    Down,
}

impl EffortKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Attention, Self::AttentionOutput, Self::GateUp, Self::Down];

    /// Its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Attention => "attention",
            Self::AttentionOutput => "attention_output",
            Self::GateUp => "gate_up",
            Self::Down => "down",
        }
    }

    /// The layer and the kind of a tensor, if it is of one.
    pub fn of(tensor: &str) -> Option<(usize, Self)> {
        let (layer, name) = tensor.strip_prefix("blk.")?.split_once('.')?;
        let kind = match name {
            "attn_q.weight" | "attn_k.weight" | "attn_v.weight" | "attn_qkv.weight" => {
                Self::Attention
            }
            "attn_output.weight" => Self::AttentionOutput,
            "ffn_gate.weight" | "ffn_up.weight" => Self::GateUp,
            "ffn_down.weight" => Self::Down,
            _ => return None,
        };
        Some((layer.parse().ok()?, kind))
    }
}

/// The fractions of the matrices of a kind in some layers.
#[derive(Clone, Debug, PartialEq)]
pub struct EffortGroup {
    /// The kind.
    pub kind: EffortKind,
    /// The layers.
    pub layers: RangeInclusive<usize>,
    /// The fraction at each effort of the table, above 0 and at most 1.
    pub fractions: Vec<f64>,
}

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

/// The calibration of a model: the scores of its matrices, and the fraction of inputs of each group of
/// matrices at some efforts of rows.
///
/// Between two of its efforts fractions are interpolated, and above the greatest up to 1 at the
/// effort 1. Below the least they are in proportion to the effort. Without efforts all fractions are those
/// of the rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EffortTable {
    efforts: Vec<f64>,
    groups: Vec<EffortGroup>,
    matrices: Vec<MatrixScores>,
}

impl EffortTable {
    /// The most efforts and groups of a table.
    pub const MOST: usize = 4096;
    /// The most efforts of a table in a file.
    pub const POINTS: usize = 256;
    /// The greatest difference of the mean fraction, by bytes, from the effort.
    pub const TOLERANCE: f64 = 0.005;

    /// The scores of matrices, whose fractions are those of the rows.
    pub fn new(matrices: Vec<MatrixScores>) -> Self {
        Self { matrices, ..Self::default() }
    }

    /// The table with fractions for some efforts, ascending, above 0 and below 1, in place of its own.
    ///
    /// # Errors
    ///
    /// A sentence about the first number that is out of its range.
    pub fn with_fractions(
        self,
        efforts: Vec<f64>,
        groups: Vec<EffortGroup>,
    ) -> Result<Self, String> {
        let (points, count) = (efforts.len(), groups.len());
        if points > Self::MOST || count > Self::MOST || (points == 0) != (count == 0) {
            return Err(format!(
                "{points} efforts of {count} groups, expected at most {} of each, or none of both",
                Self::MOST
            ));
        }
        if let Some(wrong) = efforts.iter().find(|&&effort| !(effort > 0.0 && effort < 1.0)) {
            return Err(format!("the effort {wrong}, expected one above 0 and below 1"));
        }
        if !efforts.is_sorted_by(|a, b| a < b) {
            return Err("efforts that do not ascend, expected each above the one before".to_owned());
        }
        for EffortGroup { kind, layers, fractions } in &groups {
            let name = format!("{} of layers {} to {}", kind.name(), layers.start(), layers.end());
            if fractions.len() != points {
                let found = fractions.len();
                return Err(format!(
                    "{found} fractions for {name}, expected {points}, one an effort"
                ));
            }
            if let Some(wrong) = fractions.iter().find(|&&part| !(part > 0.0 && part <= 1.0)) {
                return Err(format!(
                    "the fraction {wrong} for {name}, expected one above 0 and at most 1"
                ));
            }
        }
        Ok(Self { efforts, groups, ..self })
    }

    /// Its efforts.
    pub fn efforts(&self) -> &[f64] {
        &self.efforts
    }

    /// Its groups.
    pub fn groups(&self) -> &[EffortGroup] {
        &self.groups
    }

    /// The scores of its matrices.
    pub fn matrices(&self) -> &[MatrixScores] {
        &self.matrices
    }

    /// The scores of a weight's inputs, if the table has them.
    pub fn scores(&self, weight: &Weight) -> Option<&InputScores> {
        let of = |one: &&MatrixScores| one.tensor == weight.name && one.first == weight.first();
        self.matrices.iter().find(of).map(|one| &one.scores)
    }

    /// The fractions of a weight, which are those of rows if it is in no group; and its thresholds, if the
    /// table has its scores.
    pub fn curve(&self, weight: &Weight, mode: EffortMode) -> EffortCurve {
        let of = EffortKind::of(&weight.name);
        let is_of = |group: &&EffortGroup| {
            of.is_some_and(|(layer, kind)| group.kind == kind && group.layers.contains(&layer))
        };
        let group = self.groups.iter().find(is_of);
        let points = |group: &EffortGroup| {
            self.efforts.iter().copied().zip(group.fractions.iter().copied()).collect()
        };
        let nested = mode == EffortMode::Nested;
        let at = |scores: &InputScores| {
            let fraction = |i: usize| i as f64 / (InputScores::COUNT - 1) as f64;
            std::array::from_fn(|i| scores.threshold(fraction(i), nested))
        };
        EffortCurve {
            points: group.map(points).unwrap_or_default(),
            thresholds: self.scores(weight).map_or([0.0; InputScores::COUNT], at),
        }
    }
}

/// The fraction of a matrix's inputs by the effort of a row, and the threshold of live ones. By default
/// the fraction is the effort, and all inputs with a score above 0 are live.
#[derive(Clone, Debug, PartialEq)]
pub struct EffortCurve {
    /// Efforts, ascending, and their fractions.
    points: Vec<(f64, f64)>,
    /// The thresholds at the fractions `i / 63`, descending.
    thresholds: [f32; InputScores::COUNT],
}

impl Default for EffortCurve {
    fn default() -> Self {
        Self { points: Vec::new(), thresholds: [0.0; InputScores::COUNT] }
    }
}

impl EffortCurve {
    /// The fraction at an effort.
    pub fn fraction(&self, effort: f64) -> f64 {
        let above = self.points.partition_point(|&(at, _)| at < effort);
        let Some(&(first, least)) = self.points.first() else { return effort };
        if above == 0 {
            return least * (effort / first);
        }
        let (low, from) = self.points[above - 1];
        let (high, to) = self.points.get(above).copied().unwrap_or((1.0, 1.0));
        if effort >= high {
            return to;
        }
        from + (to - from) * ((effort - low) / (high - low))
    }

    /// The effort of a matrix for that of a row.
    pub fn of(&self, effort: Effort) -> Effort {
        Effort::new(self.fraction(effort.fraction())).unwrap_or(effort)
    }

    /// The least score, by its bits, of the inputs that are live at an effort: the next above the threshold. An
    /// input is live if its score exceeds that or is NaN. All inputs are live at 0.
    ///
    /// A score is the magnitude of the f32 product of the input and the norm of its weights. A lower half of
    /// nested codes is live if that score times the f32 nearest to 1 / [`LOWER_HALF`](crate::LOWER_HALF)
    /// is as great.
    pub fn least(&self, effort: Effort) -> u32 {
        let fraction = self.fraction(effort.fraction());
        if fraction >= 1.0 {
            return 0;
        }
        let at = fraction.max(0.0) * (InputScores::COUNT - 1) as f64;
        let below = (at as usize).min(InputScores::COUNT - 2);
        let [low, high] = [self.thresholds[below], self.thresholds[below + 1]].map(f64::from);
        let threshold = (low + (high - low) * (at - below as f64)) as f32;
        threshold.to_bits() + 1
    }
}

/// The options of a plan's rows of an effort below 1.
#[derive(Clone, Debug, PartialEq)]
pub struct EffortOptions {
    /// The parts that are left out.
    pub mode: EffortMode,
    /// The scores and fractions of each matrix. Modes other than [`EffortMode::Bucket`] need the scores of all
    /// marked ones.
    pub table: Option<Arc<EffortTable>>,
    /// The ranks of sorted buckets that are kept, 1 to [`BUCKET`].
    pub ranks: usize,
}

/// Whole inputs by fractions of rows alone.
impl Default for EffortOptions {
    fn default() -> Self {
        Self { mode: EffortMode::Channel, table: None, ranks: BUCKET }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(efforts: &[f64], fractions: &[&[f64]]) -> Result<EffortTable, String> {
        let group = |(i, fractions): (usize, &&[f64])| EffortGroup {
            kind: EffortKind::ALL[i],
            layers: 0..=3,
            fractions: fractions.to_vec(),
        };
        let groups = fractions.iter().enumerate().map(group).collect();
        // scores from 0 to 63
        let scores = InputScores::new(std::array::from_fn(|i| i as f32))?;
        let of = |tensor: &str| MatrixScores { tensor: tensor.into(), first: 0, scores };
        EffortTable::new(vec![of("blk.3.attn_k.weight")]).with_fractions(efforts.to_vec(), groups)
    }

    fn weight(name: &str) -> Weight {
        let dtype = pelton_quant::DType::F32;
        let kind = crate::WeightKind::Matrix;
        Weight { name: name.into(), dtype, kind, rows: 8, row_len: 8, part: None, effort: true }
    }

    #[test]
    fn fractions_are_interpolated() {
        let found = table(&[0.25, 0.5], &[&[0.2, 0.6], &[0.3, 0.5]]);
        let Ok(table) = found else { return assert_eq!(found.err(), None) };
        let curve = |name| table.curve(&weight(name), EffortMode::Channel);
        let of_keys = curve("blk.3.attn_k.weight");
        for (effort, expected) in
            [(0.125, 0.1), (0.25, 0.2), (0.375, 0.4), (0.5, 0.6), (0.75, 0.8), (1.0, 1.0)]
        {
            assert!((of_keys.fraction(effort) - expected).abs() < 1e-15, "{effort}");
            // the scores from 63 (1 - expected) on
            let least = Effort::new(effort).map_or(0, |effort| of_keys.least(effort));
            let threshold = f32::from_bits(least.saturating_sub(1));
            assert!((f64::from(threshold) - 63.0 * (1.0 - expected)).abs() < 1e-5, "{threshold}");
            assert_eq!(least == 0, effort == 1.0);
        }
        assert_eq!(curve("blk.0.attn_output.weight").fraction(0.25), 0.3);
        // names of no group
        for name in ["blk.4.attn_k.weight", "blk.0.ffn_down.weight", "output.weight"] {
            assert_eq!(curve(name), EffortCurve::default(), "{name}");
        }
        assert_eq!(of_keys.of(Effort::FULL), Effort::FULL);
        // a part of a fused tensor has scores of its own
        let part = Some(crate::Part { first: 4, of: 8 });
        assert_eq!(table.scores(&Weight { part, ..weight("blk.3.attn_k.weight") }), None);
    }

    #[test]
    fn numbers_that_are_refused() {
        type Case<'a> = (&'a [f64], &'a [&'a [f64]], &'a str);
        let cases: [Case<'_>; 8] = [
            (&[], &[&[]], "0 efforts"),
            (&[0.5], &[], "0 groups"),
            (&[0.0], &[&[0.5]], "the effort 0"),
            (&[1.0], &[&[0.5]], "the effort 1"),
            (&[0.5, 0.5], &[&[0.5, 0.5]], "ascend"),
            (&[0.5], &[&[0.5, 0.5]], "2 fractions for attention of layers 0 to 3"),
            (&[0.5], &[&[0.0]], "the fraction 0"),
            (&[0.5], &[&[f64::NAN]], "the fraction NaN"),
        ];
        for (efforts, fractions, what) in cases {
            let error = table(efforts, fractions).err().unwrap_or_default();
            assert!(error.contains(what), "{error}");
        }
    }
}
