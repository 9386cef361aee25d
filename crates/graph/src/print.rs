//! The printed form of a plan.

use std::fmt;

use crate::{
    Attention, BufferId, ExpertLinear, Mask, Norm, NormKind, Op, Plan, RopeStore, Step, WeightId,
};

impl fmt::Display for Plan {
    /// One line for the model, then one for each step. Consecutive layers with equal lines are
    /// printed once, with their number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = &self.shape;
        let tied = if s.tied { " (tied)" } else { "" };
        writeln!(
            f,
            "{} · {} layers · hidden {} · heads {}/{} × {} · ffn {} · vocab {}{tied} · context {} · {}",
            s.architecture,
            s.layers,
            s.hidden,
            s.heads,
            s.kv_heads,
            s.head_dim,
            s.ffn,
            self.vocab,
            self.context,
            self.dtypes(),
        )?;
        let mut at = 0;
        while at < self.steps.len() {
            let Some(layer) = self.steps[at].layer else {
                writeln!(f, "  {}", self.line(&self.steps[at], 54))?;
                at += 1;
                continue;
            };
            let body = self.layer_lines(at);
            let mut end = at + body.len();
            let mut count = 1;
            while end < self.steps.len() && self.layer_lines(end) == body {
                end += body.len();
                count += 1;
            }
            match count {
                1 => writeln!(f, "  layer {layer}")?,
                _ => writeln!(f, "  layer × {count}")?,
            }
            for line in &body {
                writeln!(f, "    {line}")?;
            }
            at = end;
        }
        Ok(())
    }
}

impl Plan {
    /// The types of the matrices, in descending order of their bytes.
    fn dtypes(&self) -> String {
        let mut bytes = std::collections::BTreeMap::new();
        for weight in self.weights.iter().filter(|weight| weight.is_matrix()) {
            *bytes.entry(weight.dtype).or_insert(0u128) +=
                weight.dtype.bytes_of(weight.len()).unwrap_or(0) as u128;
        }
        let mut sorted: Vec<_> = bytes.into_iter().collect();
        sorted.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
        let names: Vec<_> = sorted.iter().map(|(dtype, _)| dtype.name()).collect();
        names.join(" ")
    }

    /// The lines of the steps from `at` on that belong to one layer.
    fn layer_lines(&self, at: usize) -> Vec<String> {
        let layer = self.steps[at].layer;
        let same = self.steps[at..].iter().take_while(|s| layer.is_some() && s.layer == layer);
        same.map(|step| self.line(step, 52)).collect()
    }

    /// The line of a step, with its inputs in `width` columns.
    pub(crate) fn line(&self, step: &Step, width: usize) -> String {
        let names = |ids: &[BufferId]| {
            ids.iter().map(|id| self.buffer(*id).name).collect::<Vec<_>>().join(" ")
        };
        let weights: Vec<_> = step.op.weights().into_iter().map(|id| self.short_name(id)).collect();
        let mut reads = format!("{}  {}", names(&step.inputs), weights.join(" "));
        if let Op::Attend(_) | Op::RopeAttend(..) = step.op {
            reads = format!("{} kv", reads.trim());
        }
        let mut writes = names(&step.outputs);
        if let Op::Store { .. } | Op::RopeStore(_) = step.op {
            writes = format!("{writes} kv").trim_start().to_owned();
        }
        format!(
            "{:<12}{:<width$} → {:<9} {}",
            step.op.name(),
            reads.trim(),
            writes,
            self.details(&step.op)
        )
        .trim_end()
        .to_owned()
    }

    /// The name of a weight without the prefix of its layer and the suffix `.weight`.
    fn short_name(&self, id: WeightId) -> &str {
        let name = &self.weight(id).name;
        let name = name.strip_suffix(".weight").unwrap_or(name);
        let starts = ["blk.", "encoder.blocks.", "decoder.blocks."];
        let rest = starts.iter().find_map(|start| name.strip_prefix(start));
        match rest.and_then(|rest| rest.split_once('.')) {
            Some((_, part)) => part,
            None => name,
        }
    }

    fn details(&self, op: &Op) -> String {
        let norm = |norm: &Norm| {
            let kind = match norm.kind {
                NormKind::Rms => "rms",
                NormKind::Layer => "layer",
                NormKind::L2 => "l2",
            };
            format!("{kind} {:e}", norm.eps)
        };
        let rotation = |id| {
            let rope = self.rope(id);
            let pairs = match rope.style {
                crate::RopeStyle::Interleaved => "pairs interleaved",
                crate::RopeStyle::Halves => "pairs in halves",
                crate::RopeStyle::HalvesOfHalves => "pairs in halves of halves",
            };
            match rope.scaling {
                "" => pairs.to_owned(),
                scaling => format!("{pairs}, {scaling}"),
            }
        };
        let before_attention = |r: &RopeStore| match r.q_norm {
            Some(n) => format!("{}, {}", norm(&n), rotation(r.rope)),
            None => rotation(r.rope),
        };
        let attention = |a: &Attention| {
            let group = a.heads / self.caches[a.cache].heads;
            let mask = match a.mask {
                Mask::Causal { window: None } => "causal".to_owned(),
                Mask::Causal { window: Some(window) } => format!("causal, window {window}"),
                Mask::CausalOrGroup { window: None } => "causal, pictures whole".to_owned(),
                Mask::CausalOrGroup { window: Some(window) } => {
                    format!("causal, window {window}, pictures whole")
                }
                Mask::Group => "windows of a picture".to_owned(),
                Mask::Chunked { chunk } => format!("causal, chunks of {chunk}"),
                Mask::Symmetric { window: None } => "all positions".to_owned(),
                Mask::Symmetric { window: Some(window) } => format!("symmetric, window {window}"),
                Mask::Window { positions } => format!("{positions} encoded positions"),
            };
            let softcap = a.softcap.map_or(String::new(), |cap| format!(", softcap {cap}"));
            let queries = if group == 1 { "query" } else { "queries" };
            format!("{mask}{softcap}, {group} {queries} per kv head")
        };
        let experts = |linear: &ExpertLinear| {
            format!("{} of {} experts", linear.used, self.weight(linear.weight).count())
        };
        match op {
            Op::Norm(n) | Op::HeadNorm { norm: n, .. } | Op::NormLinear { norm: n, .. } => norm(n),
            Op::Rope { rope, .. } => rotation(*rope),
            Op::RopeStore(r) => before_attention(r),
            Op::Attend(a) => attention(a),
            Op::RopeAttend(r, a) => format!("{}; {}", before_attention(r), attention(a)),
            Op::Glu(gating) => gating.name().to_owned(),
            Op::NormGlu { norm: n, gating, .. } => {
                format!("{}, {}", norm(n), gating.name())
            }
            Op::Activate(activation) => activation.name().to_owned(),
            Op::Scale(factor) => format!("times {factor}"),
            Op::Softcap(cap) => format!("at {cap}"),
            Op::Clamp { low, high } => format!("{low} to {high}"),
            Op::Xielu(x) => format!("{} {} {} {}", x.positive, x.negative, x.linear, x.bound),
            Op::Inject { slice, adds: false } => format!("slice {slice}"),
            Op::Inject { slice, adds: true } => format!("slice {slice}, added"),
            Op::Temper { beta, interval, .. } => format!("beta {beta}, interval {interval}"),
            Op::Route(route) => format!("{} of {} experts", route.used, route.experts),
            Op::Adapters(adapters) => format!("{} of {}", adapters.used, adapters.count),
            Op::ExpertLinear(linear) => experts(linear),
            Op::ExpertGlu { gate, gating, .. } => {
                format!("{}, {}", experts(gate), gating.name())
            }
            Op::Pool(pooling) => format!("{pooling:?}").to_lowercase(),
            _ => String::new(),
        }
    }
}
