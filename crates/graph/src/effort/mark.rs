//! The matrices of a plan that effort applies to.

use pelton_quant::BUCKET;

use super::table::{EffortCurve, EffortTable};
use crate::{Effort, EffortForm, Error, Op, Plan, Step, Weight, WeightId, WeightKind};

/// The matrices whose products can have an effort below 1, of attention and of the feed-forward
/// network. The embedding, the output, routers and adapters are none.
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
/// The matrices of experts, in [`EffortForm::Bucket`].
const MARKED_EXPERTS: [&str; 4] = [
    "ffn_gate_exps.weight",
    "ffn_up_exps.weight",
    "ffn_gate_up_exps.weight",
    "ffn_down_exps.weight",
];

/// The name of a tensor in its layer.
fn in_layer(name: &str) -> Option<&str> {
    name.strip_prefix("blk.")?.split_once('.').map(|(_, name)| name)
}

/// Whether the name is that of a matrix which effort applies to in some format, but for experts.
pub fn is_effort_matrix(name: &str) -> bool {
    in_layer(name).is_some_and(|name| MARKED.contains(&name))
}

impl Weight {
    /// The parts of it that rows of an effort below 1 leave out; `None` if they multiply it whole.
    pub fn form(&self) -> Option<EffortForm> {
        EffortForm::of(self.dtype).filter(|_| self.marked)
    }

    /// Whether effort can apply to it in a form: buckets have 16 outputs.
    fn fits(&self, form: EffortForm) -> bool {
        let is_expert = in_layer(&self.name).is_some_and(|name| MARKED_EXPERTS.contains(&name));
        match (self.kind, form) {
            (WeightKind::Matrix, EffortForm::Nested) => is_effort_matrix(&self.name),
            (WeightKind::Matrix, EffortForm::Bucket) => {
                is_effort_matrix(&self.name) && self.rows.is_multiple_of(BUCKET)
            }
            (_, EffortForm::Bucket) => is_expert && self.rows.is_multiple_of(BUCKET),
            _ => false,
        }
    }
}

impl Plan {
    /// The plan with [`Weight::marked`](crate::Weight::marked) set, so that rows can have an effort
    /// below 1. It is set for the matrices of queries, keys, values, the output of attention and
    /// the feed-forward network whose form is one that a backend `has`.
    pub fn with_effort(mut self, has: &dyn Fn(EffortForm) -> bool) -> Self {
        let mut multiplied = Vec::new();
        for step in &self.steps {
            match &step.op {
                Op::Linear(_) | Op::LinearAdd(_) | Op::NormLinear { .. } | Op::NormGlu { .. } => {
                    multiplied.extend(step.op.weights())
                }
                Op::ExpertLinear(linear) => multiplied.push(linear.weight),
                Op::ExpertGlu { gate, up, gating: _ } => {
                    multiplied.extend([gate.weight, up.weight])
                }
                _ => {}
            }
        }
        for id in multiplied {
            let weight = &mut self.weights[id.0];
            let form = EffortForm::of(weight.dtype);
            weight.marked |= form.is_some_and(|form| weight.fits(form) && has(form));
        }
        self
    }

    /// The plan without marks and without a calibration: its rows have effort 1 alone.
    pub fn without_effort(mut self) -> Self {
        self.weights.iter_mut().for_each(|weight| weight.marked = false);
        self.marks = super::EffortOptions::default();
        self
    }

    /// Whether rows can have an effort below 1.
    pub fn has_effort(&self) -> bool {
        self.weights.iter().any(|weight| weight.marked)
    }

    /// Whether rows can have an effort below 1 in a form.
    pub fn has_form(&self, form: EffortForm) -> bool {
        self.weights.iter().any(|weight| weight.form() == Some(form))
    }

    /// Whether some ranks of buckets are kept nowhere, so that no row multiplies the whole model.
    pub fn is_partial(&self) -> bool {
        self.marks.ranks < BUCKET && self.has_form(EffortForm::Bucket)
    }

    /// The mean share of the weights of a step's marked matrices that rows of these efforts
    /// multiply. 1 without such matrices or rows.
    pub fn live_share(&self, step: &Step, efforts: &[Effort]) -> f64 {
        match step.op.weights().iter().any(|id| self.weight(*id).marked) && !efforts.is_empty() {
            true => efforts.iter().map(|one| one.fraction()).sum::<f64>() / efforts.len() as f64,
            false => 1.0,
        }
    }

    /// Bytes of a marked matrix that a row reads if it multiplies the share `live` of its weights.
    /// Scales are read whole.
    pub fn live_bytes(&self, id: WeightId, live: f64) -> usize {
        let weight = self.weight(id);
        let all = weight.dtype.bytes_of(weight.len()).unwrap_or(0);
        if live >= 1.0 {
            return all;
        }
        match EffortForm::of(weight.dtype) {
            // a code for each, and of each input the mean magnitudes of its 16 ranks
            Some(EffortForm::Bucket) => {
                let inputs = weight.count() * weight.row_len;
                (2.0 * live * weight.len() as f64) as usize + 64 * inputs
            }
            // a byte for each
            _ => all - weight.len() + (live * weight.len() as f64) as usize,
        }
    }

    /// The thresholds of a weight's inputs for the efforts of rows.
    pub fn effort_curve(&self, id: WeightId) -> EffortCurve {
        let scores = self.marks.table.as_ref().and_then(|table| table.scores(self.weight(id)));
        scores.map(EffortCurve::new).unwrap_or_default()
    }

    /// Refuses marked matrices whose scores no table has.
    ///
    /// # Errors
    ///
    /// [`Error::Effort`] with the name of the first.
    pub(crate) fn check_scores(&self) -> Result<(), Error> {
        let none = EffortTable::default();
        let table = self.marks.table.as_deref().unwrap_or(&none);
        let refuse = |what| Error::Effort(format!("the table of effort has {what}"));
        table.check(&self.weights).map_err(refuse)
    }
}
