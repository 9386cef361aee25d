//! Fractions of their own for each kind of matrix and each layer.

use std::{ops::RangeInclusive, sync::Arc};

use pelton_quant::BucketFormat;

use super::dial::{Dial, Effort, EffortMode};

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

/// The fraction of inputs of each group of matrices at some efforts of rows.
///
/// Between two of its efforts fractions are interpolated, and above the greatest up to 1 at the
/// effort 1. Below the least they are in proportion to the effort.
#[derive(Clone, Debug, PartialEq)]
pub struct EffortTable {
    efforts: Vec<f64>,
    groups: Vec<EffortGroup>,
}

impl EffortTable {
    /// The most efforts and groups of a table.
    pub const MOST: usize = 4096;
    /// The most efforts of a table in a file.
    pub const POINTS: usize = 256;
    /// The greatest difference of the mean fraction, by bytes, from the effort.
    pub const TOLERANCE: f64 = 0.005;

    /// A table of some efforts, ascending, above 0 and below 1.
    ///
    /// # Errors
    ///
    /// A sentence about the first number that is out of its range.
    pub fn new(efforts: Vec<f64>, groups: Vec<EffortGroup>) -> Result<Self, String> {
        let (points, count) = (efforts.len(), groups.len());
        if points == 0 || points > Self::MOST || count == 0 || count > Self::MOST {
            return Err(format!(
                "{points} efforts of {count} groups, expected 1 to {} of each",
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
        Ok(Self { efforts, groups })
    }

    /// Its efforts.
    pub fn efforts(&self) -> &[f64] {
        &self.efforts
    }

    /// Its groups.
    pub fn groups(&self) -> &[EffortGroup] {
        &self.groups
    }

    /// The fractions of a tensor; those of rows if it is in no group.
    pub fn curve(&self, tensor: &str) -> EffortCurve {
        let of = EffortKind::of(tensor);
        let is_of = |group: &&EffortGroup| {
            of.is_some_and(|(layer, kind)| group.kind == kind && group.layers.contains(&layer))
        };
        let group = self.groups.iter().find(is_of);
        let point = |group: &EffortGroup| {
            self.efforts.iter().copied().zip(group.fractions.iter().copied()).collect()
        };
        EffortCurve { points: group.map(point).unwrap_or_default() }
    }
}

/// The fraction of a matrix's inputs by the effort of a row; by default the effort itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EffortCurve {
    /// Efforts, ascending, and their fractions.
    points: Vec<(f64, f64)>,
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

    /// The effort of a matrix for that of a row. The share of squared scores is the same for all.
    pub fn of(&self, effort: Effort) -> Effort {
        match effort.dial() {
            Dial::Inputs(amount) => Effort::new(self.fraction(amount)).unwrap_or(effort),
            Dial::Energy(_) => effort,
        }
    }
}

/// The options of a plan's rows of an effort below 1.
#[derive(Clone, Debug, PartialEq)]
pub struct EffortOptions {
    /// The parts that are left out.
    pub mode: EffortMode,
    /// Whether rows can have [`Dial::Energy`].
    pub energy: bool,
    /// The fractions of each matrix; `None` if they are those of the rows.
    pub table: Option<Arc<EffortTable>>,
    /// The codes of sorted buckets.
    pub buckets: BucketFormat,
    /// The ranks of sorted buckets that are kept, 1 to [those of the codes](BucketFormat::ranks).
    pub ranks: usize,
}

/// Whole inputs by fractions of rows alone.
impl Default for EffortOptions {
    fn default() -> Self {
        let buckets = BucketFormat::F16;
        let (mode, ranks) = (EffortMode::Channel, buckets.ranks());
        Self { mode, energy: false, table: None, buckets, ranks }
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
        EffortTable::new(efforts.to_vec(), fractions.iter().enumerate().map(group).collect())
    }

    #[test]
    fn fractions_are_interpolated() {
        let found = table(&[0.25, 0.5], &[&[0.2, 0.6], &[0.3, 0.5]]);
        let Ok(table) = found else { return assert_eq!(found.err(), None) };
        let curve = table.curve("blk.3.attn_k.weight");
        for (effort, expected) in
            [(0.125, 0.1), (0.25, 0.2), (0.375, 0.4), (0.5, 0.6), (0.75, 0.8), (1.0, 1.0)]
        {
            assert!((curve.fraction(effort) - expected).abs() < 1e-15, "{effort}");
        }
        assert_eq!(curve.fraction(0.5), 0.6);
        assert_eq!(table.curve("blk.0.attn_output.weight").fraction(0.25), 0.3);
        // names of no group
        for name in ["blk.4.attn_k.weight", "blk.0.ffn_down.weight", "output.weight"] {
            assert_eq!(table.curve(name), EffortCurve::default(), "{name}");
        }
        let energy = Effort::energy(0.5).unwrap_or_default();
        assert_eq!(curve.of(energy), energy);
        assert_eq!(curve.of(Effort::FULL), Effort::FULL);
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
