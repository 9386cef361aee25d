//! Fusion: sequences of steps replaced by the fused ops that a backend accepts.
//!
//! A match is purely structural. It is accepted only if the buffers between its steps are not read
//! afterwards, because a fused op leaves them unwritten.
//!
//! No fused op spans the border of two [parts](Plan::begins_part). The patterns are `norm_linear`,
//! `rope_store`, `rope_attend`, `linear_add`, `norm_glu` and `expert_glu`.
//! [`Backend::accepts`](crate::Backend::accepts) decides about each candidate.

use std::ops::Range;

use crate::{BufferId, Op, Phase, Plan, RopeStore, Step};

/// The number of steps at the head of a list that a fused step can replace, and that step.
type Match = Option<(usize, Step)>;

impl Plan {
    /// The same plan with a fused op in place of every sequence of steps for which `accepts`, most
    /// often [`Backend::accepts`](crate::Backend::accepts), returns true. Buffers that no step
    /// uses any more are dropped.
    pub fn fuse(mut self, accepts: &dyn Fn(&Op, &Self) -> bool) -> Self {
        let all = self.steps.len();
        let borders = (1..all).filter(|&step| self.begins_part(step));
        let borders: Vec<usize> = [0].into_iter().chain(borders).chain([all]).collect();
        let mut fused = Vec::with_capacity(all);
        // where each border is among the fused steps
        let mut moved = vec![0; all + 1];
        for part in borders.windows(2) {
            fused.extend(self.fused_steps(part[0]..part[1], accepts));
            moved[part[1]] = fused.len();
        }
        if let Some(of) = &mut self.encoder {
            of.steps = moved[of.steps];
        }
        for Range { start, end } in self.host.iter_mut().map(|part| &mut part.steps) {
            (*start, *end) = (moved[*start], moved[*end]);
        }
        self.steps = fused;
        self.drop_unused_buffers();
        self
    }

    /// The fused steps of a part.
    fn fused_steps(&self, part: Range<usize>, accepts: &dyn Fn(&Op, &Self) -> bool) -> Vec<Step> {
        const CANDIDATES: [fn(&[Step]) -> Match; 7] = [
            norm_glu,
            norm_linear,
            rope_attend,
            rope_store,
            linear_add,
            expert_glu,
            expert_sum_add,
        ];
        let encoder = self.steps_of(Phase::Encode);
        let end = if encoder.contains(&part.start) { encoder.end } else { self.steps.len() };
        let mut rest = &self.steps[part.clone()];
        let after = &self.steps[part.end..end];
        let mut fused = Vec::with_capacity(rest.len());
        while let Some(first) = rest.first() {
            let found = CANDIDATES.iter().filter_map(|find| find(rest)).find(|(len, step)| {
                let following = rest[*len..].iter().chain(after);
                accepts(&step.op, self) && covers(&rest[..*len], step, following, &self.results())
            });
            let (len, step) = found.unwrap_or_else(|| (1, first.clone()));
            fused.push(step);
            rest = &rest[len..];
        }
        fused
    }
}

/// Whether `fused` can replace `steps`: every buffer that only they write must be written again
/// before the following steps read it, or never be read.
fn covers<'a>(
    steps: &[Step],
    fused: &Step,
    following: impl Iterator<Item = &'a Step> + Clone,
    results: &[BufferId],
) -> bool {
    let lost = |id: &&BufferId| !fused.outputs.contains(id);
    steps.iter().flat_map(|s| &s.outputs).filter(lost).all(|id| {
        let next = following.clone().find(|s| s.inputs.contains(id) || s.outputs.contains(id));
        !results.contains(id) && next.is_none_or(|s| !s.inputs.contains(id))
    })
}

/// `norm x → n`, then one or more `linear n → y`.
fn norm_linear(steps: &[Step]) -> Match {
    let Op::Norm(norm) = steps.first()?.op else { return None };
    let n = &steps[0].outputs;
    let mut linears = Vec::new();
    let mut outputs = Vec::new();
    for step in &steps[1..] {
        match &step.op {
            Op::Linear(linear) if step.inputs == *n && !outputs.contains(&step.outputs[0]) => {
                linears.push(*linear);
                outputs.push(step.outputs[0]);
            }
            _ => break,
        }
    }
    if linears.is_empty() {
        return None;
    }
    let len = 1 + linears.len();
    Some((len, joined(steps, Op::NormLinear { norm, linears }, steps[0].inputs.clone(), outputs)))
}

/// `norm x → n`, `linear n → gate`, `linear n → up`, `glu gate up → g`.
fn norm_glu(steps: &[Step]) -> Match {
    let [norm_step, gate_step, up_step, glu_step, ..] = steps else { return None };
    let (Op::Norm(norm), Op::Linear(gate), Op::Linear(up), Op::Glu(gating)) =
        (&norm_step.op, &gate_step.op, &up_step.op, &glu_step.op)
    else {
        return None;
    };
    let reads_norm = |s: &Step| s.inputs == norm_step.outputs;
    let glu_inputs = [gate_step.outputs[0], up_step.outputs[0]];
    if !reads_norm(gate_step) || !reads_norm(up_step) || glu_step.inputs != glu_inputs {
        return None;
    }
    let op = Op::NormGlu { norm: *norm, gate: *gate, up: *up, gating: *gating };
    Some((4, joined(steps, op, norm_step.inputs.clone(), glu_step.outputs.clone())))
}

/// `[head_norm q] [head_norm k]`, `rope q`, `rope k`, `store k v`.
fn rope_store(steps: &[Step]) -> Match {
    let mut at = 0;
    let mut head_norms = Vec::new();
    while let Op::HeadNorm { norm, heads } = &steps.get(at)?.op {
        head_norms.push((steps[at].inputs[0], *norm, *heads));
        at += 1;
    }
    let [q_step, k_step, store_step, ..] = &steps[at..] else { return None };
    let (
        &Op::Rope { rope, heads },
        &Op::Rope { rope: k_rope, heads: kv_heads },
        &Op::Store { cache },
    ) = (&q_step.op, &k_step.op, &store_step.op)
    else {
        return None;
    };
    let (q, k) = (q_step.inputs[0], k_step.inputs[0]);
    let &[stored, v] = store_step.inputs.as_slice() else { return None };
    if rope != k_rope || stored != k || q == k {
        return None;
    }
    let norm_of = |id, heads| {
        let norm = head_norms.iter().find(|(on, _, of)| *on == id && *of == heads);
        norm.map(|(_, norm, _)| *norm)
    };
    let (q_norm, k_norm) = (norm_of(q, heads), norm_of(k, kv_heads));
    if usize::from(q_norm.is_some()) + usize::from(k_norm.is_some()) != head_norms.len() {
        return None;
    }
    let op = Op::RopeStore(RopeStore { q_norm, k_norm, rope, heads, kv_heads, cache });
    Some((at + 3, joined(steps, op, vec![q, k, v], vec![q, k])))
}

/// The sequence of [`rope_store`], then `attend q → a`.
fn rope_attend(steps: &[Step]) -> Match {
    let (len, before) = rope_store(steps)?;
    let attend = steps.get(len)?;
    let (Op::RopeStore(rope_store), Op::Attend(attention)) = (&before.op, &attend.op) else {
        return None;
    };
    if attend.inputs != before.inputs[..1] || attention.cache != rope_store.cache {
        return None;
    }
    let op = Op::RopeAttend(*rope_store, *attention);
    Some((len + 1, joined(steps, op, before.inputs.clone(), attend.outputs.clone())))
}

/// `linear y → o`, `add x o → x`.
fn linear_add(steps: &[Step]) -> Match {
    let [linear_step, add_step, ..] = steps else { return None };
    let (Op::Linear(linear), Op::Add) = (&linear_step.op, &add_step.op) else { return None };
    let x = add_step.inputs[0];
    if add_step.inputs[1] != linear_step.outputs[0] || add_step.outputs != [x] {
        return None;
    }
    let inputs = vec![x, linear_step.inputs[0]];
    Some((2, joined(steps, Op::LinearAdd(*linear), inputs, vec![x])))
}

/// `expert_linear x ids → gate`, `expert_linear x ids → up`, `glu gate up → g`.
fn expert_glu(steps: &[Step]) -> Match {
    let [gate_step, up_step, glu_step, ..] = steps else { return None };
    let (Op::ExpertLinear(gate), Op::ExpertLinear(up), Op::Glu(gating)) =
        (&gate_step.op, &up_step.op, &glu_step.op)
    else {
        return None;
    };
    let glu_inputs = [gate_step.outputs[0], up_step.outputs[0]];
    if gate_step.inputs != up_step.inputs || glu_step.inputs != glu_inputs {
        return None;
    }
    let op = Op::ExpertGlu { gate: *gate, up: *up, gating: *gating };
    Some((3, joined(steps, op, gate_step.inputs.clone(), glu_step.outputs.clone())))
}

/// `expert_sum y weights → o`, `add x o → x`.
fn expert_sum_add(steps: &[Step]) -> Match {
    let [sum_step, add_step, ..] = steps else { return None };
    let (Op::ExpertSum { used }, Op::Add) = (&sum_step.op, &add_step.op) else { return None };
    let x = add_step.inputs[0];
    if add_step.inputs[1] != sum_step.outputs[0] || add_step.outputs != [x] {
        return None;
    }
    let inputs = vec![x, sum_step.inputs[0], sum_step.inputs[1]];
    Some((2, joined(steps, Op::ExpertSumAdd { used: *used }, inputs, vec![x])))
}

fn joined(steps: &[Step], op: Op, inputs: Vec<BufferId>, outputs: Vec<BufferId>) -> Step {
    Step { op, inputs, outputs, layer: steps[0].layer }
}
