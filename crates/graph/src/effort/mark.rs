//! The matrices of a plan that effort applies to.

use pelton_quant::DType;

use super::table::{EffortCurve, EffortKind, EffortTable};
use crate::{Effort, EffortMode, Error, Op, Plan, Step, Weight, WeightId, WeightKind};

/// The matrices whose products can have an effort below 1, of attention and of the feed-forward
/// network. The embedding, the output, routers and adapters are none; experts by
/// [`Plan::with_expert_effort`].
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
/// The matrices of experts.
const MARKED_EXPERTS: [&str; 4] = [
    "ffn_gate_exps.weight",
    "ffn_up_exps.weight",
    "ffn_gate_up_exps.weight",
    "ffn_down_exps.weight",
];

impl Plan {
    /// The plan with [`Weight::effort`](crate::Weight::effort) set, so that rows can have an effort
    /// below 1. It is set for the matrices of queries, keys, values, the output of attention and
    /// the feed-forward network.
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

    /// The plan without marks and without a calibration: its rows have effort 1 alone.
    pub fn without_effort(mut self) -> Self {
        self.weights.iter_mut().for_each(|weight| weight.effort = false);
        self.effort = super::EffortOptions::default();
        self
    }

    /// The plan with [`Weight::effort`](crate::Weight::effort) set for the matrices of experts too,
    /// if it has some. The backend [keeps them](crate::Backend::has_expert_effort) as
    /// [`EffortMode::Bucket`] needs.
    pub fn with_expert_effort(mut self) -> Self {
        let mut linears = Vec::new();
        for step in &self.steps {
            match &step.op {
                Op::ExpertLinear(linear) => linears.push(linear.weight),
                Op::ExpertGlu { gate, up, gating: _ } => linears.extend([gate.weight, up.weight]),
                _ => {}
            }
        }
        for id in linears {
            let weight = &mut self.weights[id.0];
            let name = weight.name.strip_prefix("blk.").and_then(|name| name.split_once('.'));
            weight.effort |= name.is_some_and(|(_, name)| MARKED_EXPERTS.contains(&name));
        }
        self
    }

    /// Whether rows can have an effort below 1.
    pub fn has_effort(&self) -> bool {
        self.weights.iter().any(|weight| weight.effort)
    }

    /// The mean share of the weights of a step's marked matrices that rows of these efforts multiply. 1
    /// without such matrices or rows.
    pub fn live_share(&self, step: &Step, efforts: &[Effort]) -> f64 {
        let (mut live, mut all) = (0.0, 0.0);
        for &id in step.op.weights().iter().filter(|id| self.weight(**id).effort) {
            let (weights, curve) = (self.weight(id).len() as f64, self.effort_curve(id));
            for &effort in efforts {
                live += weights * curve.fraction(effort.fraction());
                all += weights;
            }
        }
        if all == 0.0 { 1.0 } else { live / all }
    }

    /// Bytes of a marked matrix that a row reads if it multiplies the share `live` of its weights. Scales
    /// are read whole.
    pub fn live_bytes(&self, id: WeightId, live: f64) -> usize {
        let weight = self.weight(id);
        let all = weight.dtype.bytes_of(weight.len()).unwrap_or(0);
        if live >= 1.0 {
            return all;
        }
        let code_bits = match weight.dtype {
            // a code for each, and of each input the mean magnitudes of its 16 ranks
            _ if self.effort.mode == EffortMode::Bucket => {
                let inputs = weight.count() * weight.row_len;
                return (2.0 * live * weight.len() as f64) as usize + 64 * inputs;
            }
            DType::F32 => 32,
            DType::F16 | DType::BF16 => 16,
            DType::Q8_0 => 8,
            DType::Q6_K => 6,
            DType::Q5_K => 5,
            _ => 4,
        };
        let codes = code_bits * weight.len() / 8;
        all - codes + (live * codes as f64) as usize
    }

    /// The fractions and thresholds of a weight's inputs for the efforts of rows.
    pub fn effort_curve(&self, id: WeightId) -> EffortCurve {
        match &self.effort.table {
            Some(table) => table.curve(self.weight(id), self.effort.mode),
            None => EffortCurve::default(),
        }
    }

    /// Refuses marked matrices whose scores no table has, in modes of thresholds.
    ///
    /// # Errors
    ///
    /// [`Error::Effort`] with the name of the first.
    pub(crate) fn check_scores(&self) -> Result<(), Error> {
        if self.effort.mode == EffortMode::Bucket {
            return Ok(());
        }
        let has = |weight: &Weight| {
            self.effort.table.as_ref().is_some_and(|table| table.scores(weight).is_some())
        };
        match self.weights.iter().find(|weight| weight.effort && !has(weight)) {
            None => Ok(()),
            Some(weight) => Err(Error::Effort(format!(
                "the table of effort has no scores of '{}' from row {} on, expected those of all \
                 marked matrices: `pelton effort calibrate` measures them",
                weight.name,
                weight.first()
            ))),
        }
    }
}

impl EffortTable {
    /// Refuses a table that is not of a plan, lacks the scores of one of its matrices, or reads more or less
    /// than its efforts say.
    ///
    /// # Errors
    ///
    /// A sentence about a matrix that is in no group or in several. Or about an effort that is not
    /// the mean of the fractions, weighted by bytes.
    pub fn check(&self, plan: &Plan) -> Result<(), String> {
        // each is compared with all matrices
        if self.efforts().len() > Self::POINTS {
            let count = self.efforts().len();
            return Err(format!("{count} efforts, expected at most {}", Self::POINTS));
        }
        for weight in plan.weights.iter().filter(|weight| weight.effort) {
            if self.scores(weight).is_none() && plan.effort.mode != EffortMode::Bucket {
                let name = &weight.name;
                return Err(format!("no scores of the tensor '{name}', expected those of all"));
            }
            // the fractions of experts are those of the rows
            let Some((layer, kind)) = EffortKind::of(&weight.name) else { continue };
            let count = self
                .groups()
                .iter()
                .filter(|group| group.kind == kind && group.layers.contains(&layer));
            let count = count.count();
            if count != 1 && !self.groups().is_empty() {
                let name = &weight.name;
                return Err(format!("{count} groups with the tensor '{name}', expected one"));
            }
        }
        for &effort in self.efforts() {
            let mean = self.mean(plan, effort);
            if (mean - effort).abs() > Self::TOLERANCE {
                return Err(format!(
                    "fractions of {mean:.4} of the bytes at the effort {effort}, expected {effort}"
                ));
            }
        }
        Ok(())
    }

    /// The mean fraction of a plan's marked matrices but for experts at an effort, weighted by their
    /// bytes.
    pub fn mean(&self, plan: &Plan, effort: f64) -> f64 {
        let (mut read, mut all) = (0.0, 0.0);
        let has_kind = |weight: &&Weight| EffortKind::of(&weight.name).is_some();
        for weight in plan.weights.iter().filter(|weight| weight.effort).filter(has_kind) {
            let bytes = bytes(weight);
            read += bytes * self.curve(weight, plan.effort.mode).fraction(effort);
            all += bytes;
        }
        read / all
    }
}

/// Bytes of a weight in its file.
fn bytes(weight: &Weight) -> f64 {
    weight.dtype.bytes_of(weight.len()).unwrap_or(0) as f64
}

impl Plan {
    /// The marked matrices of each kind in each layer that has some, with their bytes.
    pub fn effort_matrices(&self) -> Vec<(usize, EffortKind, f64)> {
        let mut all: Vec<(usize, EffortKind, f64)> = Vec::new();
        for id in (0..self.weights.len()).map(WeightId) {
            let weight = self.weight(id);
            let Some((layer, kind)) = EffortKind::of(&weight.name).filter(|_| weight.effort) else {
                continue;
            };
            match all.iter_mut().find(|(of, same, _)| (*of, *same) == (layer, kind)) {
                Some((_, _, sum)) => *sum += bytes(weight),
                None => all.push((layer, kind, bytes(weight))),
            }
        }
        all
    }
}
