//! The check whether the kernels can run an op.

use pelton_graph::{
    Activation, Attention as AttentionOp, Gating, KvType, Linear, Mask, Norm, Op, Plan, RopeStore,
    WeightId, WeightKind,
};

use crate::{device::Capabilities, kernels::attention::Attention};

/// Maximum elements of a head that the rotation can keep in workgroup memory.
const HEAD_DIM: usize = 512;

/// Whether the kernels can run an op of a plan.
pub(crate) fn accepts(capabilities: &Capabilities, op: &Op, plan: &Plan) -> bool {
    let kind = |id: WeightId, kind| plan.weight(id).kind == kind;
    let norm = |op: &Norm| op.rms_weight().is_some_and(|id| kind(id, WeightKind::Vector));
    let linear = |&Linear { weight, bias }: &Linear| {
        kind(weight, WeightKind::Matrix) && bias.is_none_or(|bias| kind(bias, WeightKind::Vector))
    };
    let head_dim = |cache: usize| plan.caches[cache].head_dim();
    let rotates = |head_dim: usize| head_dim.is_multiple_of(2) && head_dim <= HEAD_DIM;
    let stores = |op: &RopeStore| {
        let RopeStore { q_norm, k_norm, rope: _, heads: _, kv_heads: _, cache } = op;
        q_norm.iter().chain(k_norm).all(norm) && head_dim(*cache).is_some_and(rotates)
    };
    let attends = |op: &AttentionOp| {
        let AttentionOp { cache, heads: _, scale: _, mask, softcap, sinks, alibi } = op;
        let plain = matches!(mask, Mask::Causal { .. })
            && softcap.is_none()
            && sinks.is_none()
            && alibi.is_none()
            && head_dim(*cache).is_some();
        // the result depends neither on the type of the cache nor on the length of tables
        plain && Attention::of(op, &plan.caches[*cache], KvType::F16, 1).fits(capabilities)
    };
    match op {
        Op::Embed { table } => kind(*table, WeightKind::Matrix),
        Op::Norm(op) => norm(op),
        Op::HeadNorm { norm: op, heads: _ } => norm(op),
        Op::Linear(op) | Op::LinearAdd(op) => linear(op),
        Op::Rope { rope: _, heads } => {
            // the width is the buffer's, and every head has the same
            *heads > 0 && plan.caches.iter().all(|cache| rotates(cache.key_dim))
        }
        Op::Store { cache } => head_dim(*cache).is_some_and(rotates),
        Op::Attend(op) => attends(op),
        Op::Add | Op::Select => true,
        Op::Glu(gating) => gates(*gating),
        Op::NormLinear { norm: op, linears } => norm(op) && linears.iter().all(linear),
        Op::RopeStore(op) => stores(op),
        Op::RopeAttend(store, attend) => stores(store) && attends(attend),
        Op::NormGlu { norm: op, gate, up, gating } => {
            norm(op) && linear(gate) && linear(up) && gates(*gating)
        }
        Op::AddTable { .. }
        | Op::HeadLinear { .. }
        | Op::Temper { .. }
        | Op::ShortConv(_)
        | Op::GatedDelta(_)
        | Op::Activate(_)
        | Op::Scale(_)
        | Op::Softcap(_)
        | Op::Copy(_)
        | Op::Route(_)
        | Op::ExpertLinear(_)
        | Op::ExpertSum { .. }
        | Op::Pool(_)
        | Op::ExpertGlu { .. } => false,
    }
}

fn gates(gating: Gating) -> bool {
    matches!(gating, Gating::Product(Activation::Silu))
}
