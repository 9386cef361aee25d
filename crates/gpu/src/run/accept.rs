//! The check whether the kernels can run an op.

use pelton_graph::{
    Adapters, Attention as AttentionOp, Cache, ExpertLinear, Gating, KvType, Linear, Mask, Norm,
    NormKind, Op, Plan, Pooling, RopeId, RopeStore, RopeStyle, ShortConv, Step, StridedCopy,
    TableRow, Values, WeightId, WeightKind, Xielu,
};

use crate::{
    device::Capabilities,
    kernels::{
        attention::Attention,
        experts::Route,
        recurrent::{GatedDelta, ShortConv as ShortConvKernel},
        rope_store::Coordinates,
        scan::SelectiveScan,
    },
};

/// Maximum elements of a head that the rotation can keep in workgroup memory.
const HEAD_DIM: usize = 512;

/// Whether the kernels can run an op of a plan.
pub(crate) fn accepts(capabilities: &Capabilities, op: &Op, plan: &Plan) -> bool {
    let kind = |id: WeightId, kind| plan.weight(id).kind == kind;
    let vector = |id: Option<WeightId>| id.is_none_or(|id| kind(id, WeightKind::Vector));
    let norm = |&Norm { kind: _, weight, bias, eps: _ }: &Norm| vector(weight) && vector(bias);
    let rms = |op: &Norm| op.rms_weight().is_some_and(|id| kind(id, WeightKind::Vector));
    // factors are bound with the products of a LayerNorm, which plans with an encoder have
    let layer = |op: &Norm| {
        let marked = |step: &Step| step.op.weights().iter().any(|&id| plan.weight(id).marked);
        op.kind == NormKind::Layer
            && op.weight.is_some()
            && norm(op)
            && plan.encoder.is_some()
            && !plan.steps.iter().any(marked)
    };
    let linear =
        |&Linear { weight, bias }: &Linear| kind(weight, WeightKind::Matrix) && vector(bias);
    let head_dim = |cache: usize| plan.caches[cache].head_dim();
    let rotates = |head_dim: usize| (1..=HEAD_DIM).contains(&head_dim);
    let is_rope = |id: RopeId| {
        let rope = plan.rope(id);
        rope.style != RopeStyle::HalvesOfHalves || rope.frequencies.len().is_multiple_of(2)
    };
    let placed = |id: RopeId| Coordinates::of(plan, plan.rope(id)) != Coordinates::Position;
    // factors of each head of its own have no fused kernel
    let rms_of_heads = |op: &Norm, cache: usize| {
        let length = op.rms_weight().map(|id| plan.weight(id).row_len);
        rms(op) && length == head_dim(cache)
    };
    let stores = |op: &RopeStore| {
        let RopeStore { q_norm, k_norm, rope, heads: _, kv_heads: _, cache } = op;
        // rows, q, k, v, page tables, keys, values and rotation steps, the factors of norms, and
        // the places of rows
        let bindings = 8 + q_norm.iter().chain(k_norm).count() + usize::from(placed(*rope));
        is_rope(*rope)
            && capabilities.binds(bindings)
            && q_norm.iter().chain(k_norm).all(|op| rms_of_heads(op, *cache))
            && head_dim(*cache).is_some_and(rotates)
    };
    let attends = |op: &AttentionOp| {
        let AttentionOp { cache, heads: _, scale: _, mask, softcap, sinks, alibi: _ } = op;
        let masked = match *mask {
            Mask::Causal { window } => window != Some(0),
            // rows, tiles, page tables, q, keys, values, a, places and sinks
            Mask::CausalOrGroup { window } => {
                window != Some(0) && capabilities.binds(8 + sinks.iter().count())
            }
            Mask::Group => plan.whole_sequences && capabilities.binds(8 + sinks.iter().count()),
            Mask::Chunked { chunk } => chunk > 0,
            // the number of positions is that of the sequence's rows in the pass
            Mask::Symmetric { window: _ } => plan.whole_sequences,
            Mask::Window { positions } => positions > 0,
        };
        // the result depends neither on the type of the cache nor on the length of tables
        masked
            && vector(*sinks)
            && softcap.is_none_or(|cap| cap > 0.0)
            && Attention::of(op, &plan.caches[*cache], KvType::F32, 1).fits(capabilities)
    };
    // the width is the buffer's, and every head has the same
    let rotates_heads = |heads: usize| {
        let mut steps = plan.steps.iter().filter(|step| step.op == *op);
        let width = |step: &Step| step.outputs.first().map_or(0, |&id| plan.buffer(id).width);
        heads > 0 && steps.all(|step| rotates(width(step) / heads))
    };
    let experts = |&ExpertLinear { weight, bias, used }: &ExpertLinear| {
        let weight = plan.weight(weight);
        let len = weight.count() * weight.rows;
        matches!(weight.kind, WeightKind::Matrices { .. })
            && used > 0
            && bias.is_none_or(|bias| plan.weight(bias).len() == len)
    };
    match op {
        Op::Embed { table } => kind(*table, WeightKind::Matrix),
        Op::Inject { slice, adds: _ } => plan.injected.is_some_and(|of| *slice < of.slices),
        Op::Clamp { low, high } => low <= high,
        Op::Xielu(Xielu { positive, negative, linear, bound }) => {
            [positive, negative, linear].iter().all(|factor| factor.is_finite()) && *bound <= 0.0
        }
        Op::Norm(op) => norm(op),
        Op::HeadNorm { norm: op, heads } => *heads > 0 && norm(op),
        Op::AddTable {
            table,
            row: TableRow::Position | TableRow::Fixed(_) | TableRow::TokenType,
        } => kind(*table, WeightKind::Matrix),
        Op::Linear(op) | Op::LinearAdd(op) => linear(op),
        Op::Rope { rope, heads } => is_rope(*rope) && rotates_heads(*heads),
        Op::Store { cache } => {
            let Cache { heads, key_dim, values, group: _ } = plan.caches[*cache];
            let (Values::Own { dim } | Values::KeyPrefix { dim }) = values;
            // heads of an even length are staged in workgroup memory
            let staged = head_dim(*cache).filter(|dim| dim.is_multiple_of(2));
            heads > 0 && key_dim > 0 && dim > 0 && staged.is_none_or(rotates)
        }
        Op::Attend(op) => attends(op),
        Op::Add | Op::Select | Op::Activate(_) | Op::Scale(_) | Op::Softcap(_) => true,
        Op::Temper { beta: _, interval, offset: _ } => *interval > 0,
        Op::Glu(Gating::Product(_) | Gating::Clamped { alpha: _, limit: _ }) => true,
        Op::Copy(StridedCopy { count, width, from: _, to: _ }) => *count > 0 && *width > 0,
        Op::ExpertScale { factors, used } => *used > 0 && kind(*factors, WeightKind::Vector),
        Op::ExpertSum { used } | Op::ExpertSumAdd { used } => *used > 0,
        Op::Adapters(Adapters { count, used }) => (1..=*count).contains(used),
        // a sequence's rows lie one after the other in its pass
        Op::Pool(Pooling::Mean | Pooling::First | Pooling::Last) => plan.whole_sequences,
        Op::NormLinear { norm: op, linears } => {
            (rms(op) || layer(op)) && linears.iter().all(linear)
        }
        Op::RopeStore(op) => stores(op),
        Op::RopeAttend(store, attend) => stores(store) && attends(attend),
        Op::NormGlu { norm: op, gate, up, gating: Gating::Product(_) | Gating::Clamped { .. } } => {
            rms(op) && linear(gate) && linear(up)
        }
        Op::HeadLinear { weight, heads } => {
            *heads > 0 && kind(*weight, WeightKind::Matrices { count: *heads })
        }
        Op::Route(op) => {
            vector(op.bias) && vector(op.expert_scale) && Route(*op).fits(capabilities)
        }
        Op::ExpertLinear(op) => experts(op),
        Op::ExpertGlu { gate, up, gating: Gating::Product(_) | Gating::Clamped { .. } } => {
            let shape = |op: &ExpertLinear| {
                let weight = plan.weight(op.weight);
                (weight.count(), weight.rows, weight.row_len, op.used)
            };
            experts(gate) && experts(up) && shape(gate) == shape(up)
        }
        Op::ShortConv(ShortConv { state, weight, bias, taps, activation: _ }) => {
            let weight = plan.weight(*weight);
            let len = plan.states.get(*state).map(|state| state.len * taps);
            vector(*bias)
                && (2..=ShortConvKernel::TAPS).contains(taps)
                && len == Some(weight.len() * (taps - 1))
        }
        Op::GatedDelta(op) => {
            let len = op.value_heads * op.key_dim * op.value_dim;
            vector(Some(op.rate))
                && vector(Some(op.shift))
                && plan.states.get(op.state).is_some_and(|state| state.len == len)
                && GatedDelta(*op).fits(capabilities)
        }
        Op::SelectiveScan(op) => {
            let len = op.heads * op.head_dim * op.state_dim;
            [op.rate, op.skip, op.shift].into_iter().all(|id| vector(Some(id)))
                && plan.states.get(op.state).is_some_and(|state| state.len == len)
                && SelectiveScan(*op).fits(capabilities)
        }
    }
}
