//! The ops that each path runs, decided field by field: a new field or op does not compile until
//! it has been considered here.

use pelton_graph::{
    Activation, Attention, Linear, Norm, Op, Plan, RopeId, RopeStore, RopeStyle, WeightId,
    WeightKind,
};

/// Whether the reference path runs an op: elementary ops only.
pub(crate) fn reference(op: &Op, plan: &Plan) -> bool {
    match op {
        Op::NormLinear { norm: _, linears: _ }
        | Op::RopeStore(_)
        | Op::RopeAttend(_, _)
        | Op::LinearAdd(_)
        | Op::NormGlu { norm: _, gate: _, up: _, activation: _ } => false,
        _ => fast(op, plan),
    }
}

/// Whether the fast path runs an op.
pub(crate) fn fast(op: &Op, plan: &Plan) -> bool {
    match op {
        Op::Embed { table } => is_matrix(plan, *table),
        Op::Norm(norm) => is_norm(plan, norm),
        Op::Linear(linear) | Op::LinearAdd(linear) => is_linear(plan, linear),
        Op::HeadNorm { norm, heads } => is_norm(plan, norm) && *heads > 0,
        Op::Rope { rope, heads } => is_rope(plan, *rope) && *heads > 0,
        Op::Store { cache } => *cache < plan.caches.len(),
        Op::Attend(attention) => is_attention(plan, attention),
        Op::Add | Op::Select => true,
        Op::Glu(activation) => is_activation(*activation),
        Op::NormLinear { norm, linears } => {
            is_norm(plan, norm) && linears.iter().all(|linear| follows(plan, norm, linear))
        }
        Op::RopeStore(op) => is_rope_store(plan, op),
        Op::RopeAttend(_, _) => false,
        Op::NormGlu { norm, gate, up, activation } => {
            is_norm(plan, norm)
                && follows(plan, norm, gate)
                && follows(plan, norm, up)
                && plan.weight(gate.weight).rows == plan.weight(up.weight).rows
                && is_activation(*activation)
        }
    }
}

fn is_matrix(plan: &Plan, id: WeightId) -> bool {
    let weight = plan.weight(id);
    weight.kind == WeightKind::Matrix && weight.row_len.is_multiple_of(weight.dtype.block_len())
}

fn is_vector(plan: &Plan, id: WeightId) -> bool {
    plan.weight(id).kind == WeightKind::Vector
}

fn is_norm(plan: &Plan, norm: &Norm) -> bool {
    let &Norm { weight, eps } = norm;
    is_vector(plan, weight) && eps >= 0.0
}

fn is_linear(plan: &Plan, linear: &Linear) -> bool {
    let &Linear { weight, bias } = linear;
    let rows = plan.weight(weight).rows;
    is_matrix(plan, weight)
        && bias.is_none_or(|id| is_vector(plan, id) && plan.weight(id).row_len == rows)
}

/// Whether a linear multiplies the rows that a norm gives.
fn follows(plan: &Plan, norm: &Norm, linear: &Linear) -> bool {
    is_linear(plan, linear)
        && plan.weight(linear.weight).row_len == plan.weight(norm.weight).row_len
}

fn is_rope(plan: &Plan, id: RopeId) -> bool {
    match plan.rope(id).style {
        RopeStyle::Interleaved | RopeStyle::Halves => true,
    }
}

fn is_activation(activation: Activation) -> bool {
    match activation {
        Activation::Silu => true,
    }
}

fn is_attention(plan: &Plan, attention: &Attention) -> bool {
    let &Attention { cache, heads, scale, window } = attention;
    let Some(cache) = plan.caches.get(cache) else { return false };
    heads > 0
        && cache.heads > 0
        && heads.is_multiple_of(cache.heads)
        && scale.is_finite()
        && window != Some(0)
}

fn is_rope_store(plan: &Plan, op: &RopeStore) -> bool {
    let &RopeStore { q_norm, k_norm, rope, heads, kv_heads, cache } = op;
    let Some(cache) = plan.caches.get(cache) else { return false };
    let is_head_norm = |norm: Option<Norm>| {
        norm.is_none_or(|norm| {
            is_norm(plan, &norm) && plan.weight(norm.weight).row_len == cache.head_dim
        })
    };
    is_head_norm(q_norm)
        && is_head_norm(k_norm)
        && is_rope(plan, rope)
        && heads > 0
        && kv_heads == cache.heads
        && 2 * plan.rope(rope).frequencies.len() <= cache.head_dim
}
