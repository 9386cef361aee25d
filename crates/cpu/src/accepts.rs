//! The ops that each path runs, decided field by field: a new field or op does not compile until
//! it has been considered here.

use pelton_graph::{
    Activation, Adapters, Attention, ExpertGroups, ExpertLinear, GatedDelta, Gating, Linear, Mask,
    Norm, NormKind, Op, Plan, Pooling, RopeId, RopeStore, RopeStyle, Route, Scores, SelectiveScan,
    ShortConv, TableRow, Values, WeightId, WeightKind, Xielu,
};

/// Whether the reference path runs an op: elementary ops only.
pub(crate) fn reference(op: &Op, plan: &Plan) -> bool {
    match op {
        Op::NormLinear { norm: _, linears: _ }
        | Op::RopeStore(_)
        | Op::RopeAttend(_, _)
        | Op::LinearAdd(_)
        | Op::ExpertSumAdd { used: _ }
        | Op::NormGlu { norm: _, gate: _, up: _, gating: _ }
        | Op::ExpertGlu { gate: _, up: _, gating: _ } => false,
        _ => fast(op, plan),
    }
}

/// Whether the fast path runs an op.
pub(crate) fn fast(op: &Op, plan: &Plan) -> bool {
    match op {
        Op::Embed { table } => is_matrix(plan, *table),
        Op::AddTable { table, row } => is_table(plan, *table, *row),
        Op::Inject { slice, adds: _ } => plan.injected.is_some_and(|of| *slice < of.slices),
        Op::Norm(norm) => is_norm(plan, norm),
        Op::Linear(linear) | Op::LinearAdd(linear) => is_linear(plan, linear),
        Op::HeadNorm { norm, heads } => is_norm(plan, norm) && *heads > 0,
        Op::HeadLinear { weight, heads } => is_matrices(plan, *weight, *heads),
        Op::Rope { rope, heads } => is_rope(plan, *rope) && *heads > 0,
        Op::Temper { beta, interval, offset: _ } => beta.is_finite() && *interval > 0,
        Op::Store { cache } => *cache < plan.caches.len(),
        Op::Attend(attention) => is_attention(plan, attention),
        Op::ShortConv(conv) => is_short_conv(plan, conv),
        Op::GatedDelta(delta) => is_gated_delta(plan, delta),
        Op::SelectiveScan(scan) => is_selective_scan(plan, scan),
        Op::Add | Op::Select => true,
        Op::Glu(gating) => is_gating(*gating),
        Op::Activate(activation) => is_activation(*activation),
        Op::Scale(factor) => factor.is_finite(),
        Op::Softcap(cap) => cap.is_finite() && *cap > 0.0,
        Op::Clamp { low, high } => low <= high,
        Op::Xielu(xielu) => is_xielu(*xielu),
        Op::Copy(copy) => copy.count > 0 && copy.width > 0,
        Op::Route(route) => is_route(plan, route),
        Op::ExpertLinear(linear) => is_expert_linear(plan, linear),
        Op::ExpertScale { factors, used } => *used > 0 && is_vector(plan, *factors),
        Op::ExpertSum { used } => *used > 0,
        // ids are whole numbers in f32
        Op::Adapters(Adapters { count, used }) => (1..=*count).contains(used) && *count <= 1 << 24,
        Op::Pool(pooling) => match pooling {
            Pooling::Mean | Pooling::First | Pooling::Last => true,
        },
        Op::NormLinear { norm, linears } => {
            is_norm(plan, norm) && linears.iter().all(|linear| follows(plan, norm, linear))
        }
        Op::RopeStore(op) => is_rope_store(plan, op),
        Op::RopeAttend(_, _) | Op::ExpertSumAdd { used: _ } => false,
        Op::NormGlu { norm, gate, up, gating } => {
            is_norm(plan, norm)
                && follows(plan, norm, gate)
                && follows(plan, norm, up)
                && plan.weight(gate.weight).rows == plan.weight(up.weight).rows
                && plan.weight(gate.weight).row_len == plan.weight(up.weight).row_len
                && is_gating(*gating)
        }
        Op::ExpertGlu { gate, up, gating } => {
            let (gates, ups) = (plan.weight(gate.weight), plan.weight(up.weight));
            is_expert_linear(plan, gate)
                && is_expert_linear(plan, up)
                && gate.used == up.used
                && gates.count() == ups.count()
                && (gates.rows, gates.row_len) == (ups.rows, ups.row_len)
                && is_gating(*gating)
        }
    }
}

/// Whether the rows of a weight are whole blocks of its stored format.
fn has_whole_blocks(plan: &Plan, id: WeightId) -> bool {
    let weight = plan.weight(id);
    weight.row_len > 0 && weight.row_len.is_multiple_of(weight.dtype.block_len())
}

fn is_matrix(plan: &Plan, id: WeightId) -> bool {
    plan.weight(id).kind == WeightKind::Matrix && has_whole_blocks(plan, id)
}

fn is_matrices(plan: &Plan, id: WeightId, count: usize) -> bool {
    plan.weight(id).kind == WeightKind::Matrices { count }
        && count > 0
        && has_whole_blocks(plan, id)
}

fn is_table(plan: &Plan, id: WeightId, row: TableRow) -> bool {
    let rows = plan.weight(id).rows;
    is_matrix(plan, id)
        && match row {
            TableRow::Position => plan.positions_of(id) <= rows,
            TableRow::Fixed(row) => row < rows,
            TableRow::TokenType => plan.token_types <= rows,
        }
}

fn is_vector(plan: &Plan, id: WeightId) -> bool {
    plan.weight(id).kind == WeightKind::Vector
}

fn is_vector_of(plan: &Plan, id: WeightId, len: usize) -> bool {
    is_vector(plan, id) && plan.weight(id).row_len == len
}

/// Whether a weight is a table of small vectors, which is decoded to f32 at load.
fn is_vectors_of(plan: &Plan, id: WeightId, rows: usize, row_len: usize) -> bool {
    let weight = plan.weight(id);
    is_matrix(plan, id) && (weight.rows, weight.row_len) == (rows, row_len)
}

fn is_norm(plan: &Plan, norm: &Norm) -> bool {
    let &Norm { kind, weight, bias, eps } = norm;
    let is_known = match kind {
        NormKind::Rms | NormKind::Layer | NormKind::L2 => true,
    };
    let same_len = match (weight, bias) {
        (Some(weight), Some(bias)) => plan.weight(weight).row_len == plan.weight(bias).row_len,
        _ => true,
    };
    is_known
        && norm.weights().all(|id| is_vector(plan, id))
        && same_len
        && (0.0..1.0).contains(&eps)
}

/// The length of the rows or heads that a norm has weights for, if it has any.
fn norm_len(plan: &Plan, norm: &Norm) -> Option<usize> {
    norm.weights().next().map(|id| plan.weight(id).row_len)
}

fn is_linear(plan: &Plan, linear: &Linear) -> bool {
    let &Linear { weight, bias } = linear;
    is_matrix(plan, weight)
        && bias.is_none_or(|id| is_vector_of(plan, id, plan.weight(weight).rows))
}

/// Whether a linear multiplies the rows that a norm returns.
fn follows(plan: &Plan, norm: &Norm, linear: &Linear) -> bool {
    let row_len = plan.weight(linear.weight).row_len;
    is_linear(plan, linear) && norm_len(plan, norm).is_none_or(|len| len == row_len)
}

fn is_expert_linear(plan: &Plan, linear: &ExpertLinear) -> bool {
    let &ExpertLinear { weight, bias, used } = linear;
    let matrices = plan.weight(weight);
    is_matrices(plan, weight, matrices.count())
        && (1..=matrices.count()).contains(&used)
        && bias.is_none_or(|id| is_vectors_of(plan, id, matrices.count(), matrices.rows))
}

fn is_route(plan: &Plan, route: &Route) -> bool {
    let &Route { experts, used, scores, bias, groups, normalize: _, scale, expert_scale } = route;
    let is_known = match scores {
        Scores::Softmax | Scores::Sigmoid | Scores::SelectedSoftmax => true,
    };
    let have_enough = groups.is_none_or(|ExpertGroups { count, used: considered, best }| {
        count > 0
            && experts.is_multiple_of(count)
            && (1..=count).contains(&considered)
            && (1..=2).contains(&best)
            && best <= experts / count
            && used <= considered * (experts / count)
    });
    is_known
        && (1..=experts).contains(&used)
        // ids are whole numbers in f32
        && experts <= 1 << 24
        && have_enough
        && scale.is_finite()
        && [bias, expert_scale].into_iter().flatten().all(|id| is_vector_of(plan, id, experts))
}

fn is_rope(plan: &Plan, id: RopeId) -> bool {
    match plan.rope(id).style {
        RopeStyle::Interleaved | RopeStyle::Halves => true,
        RopeStyle::HalvesOfHalves => plan.rope(id).frequencies.len().is_multiple_of(2),
    }
}

fn is_activation(activation: Activation) -> bool {
    match activation {
        Activation::Identity
        | Activation::Silu
        | Activation::GeluTanh
        | Activation::GeluErf
        | Activation::GeluQuick
        | Activation::Relu
        | Activation::ReluSquared
        | Activation::Sigmoid
        | Activation::Tanh
        | Activation::Softplus => true,
    }
}

fn is_xielu(Xielu { positive, negative, linear, bound }: Xielu) -> bool {
    [positive, negative, linear].iter().all(|factor| factor.is_finite()) && bound <= 0.0
}

fn is_gating(gating: Gating) -> bool {
    match gating {
        Gating::Product(activation) => is_activation(activation),
        Gating::Clamped { alpha, limit } => alpha.is_finite() && limit >= 0.0,
    }
}

fn is_attention(plan: &Plan, attention: &Attention) -> bool {
    let &Attention { cache, heads, scale, mask, softcap, sinks, alibi } = attention;
    let Some(cache) = plan.caches.get(cache) else { return false };
    let is_mask = match mask {
        Mask::Causal { window } | Mask::CausalOrGroup { window } => window != Some(0),
        Mask::Chunked { chunk } => chunk > 0,
        // the keys of later rows are stored in the same pass
        Mask::Symmetric { window: _ } | Mask::Group => plan.whole_sequences,
        Mask::Window { positions } => positions > 0 && positions == plan.encoded_positions(),
    };
    is_mask
        && heads > 0
        && cache.heads > 0
        && heads.is_multiple_of(cache.heads)
        && (1..).contains(&cache.value_dim())
        && match cache.values {
            Values::Own { dim: _ } => cache.key_dim > 0,
            Values::KeyPrefix { dim } => dim <= cache.key_dim,
        }
        && scale.is_finite()
        && softcap.is_none_or(|cap| cap.is_finite() && cap > 0.0)
        && sinks.is_none_or(|id| is_vector_of(plan, id, heads))
        && alibi.is_none_or(f32::is_finite)
}

fn is_short_conv(plan: &Plan, conv: &ShortConv) -> bool {
    let &ShortConv { state, weight, bias, taps, activation: _ } = conv;
    let channels = plan.weight(weight).rows;
    let len = taps.saturating_sub(1).saturating_mul(channels);
    taps >= 2
        && is_vectors_of(plan, weight, channels, taps)
        && bias.is_none_or(|id| is_vector_of(plan, id, channels))
        && plan.states.get(state).is_some_and(|state| state.len == len)
}

fn is_gated_delta(plan: &Plan, delta: &GatedDelta) -> bool {
    let &GatedDelta { state, key_heads, value_heads, key_dim, value_dim, grouped: _, rate, shift } =
        delta;
    let len = value_heads.saturating_mul(key_dim).saturating_mul(value_dim);
    len > 0
        && key_heads > 0
        && value_heads.is_multiple_of(key_heads)
        && is_vector_of(plan, rate, value_heads)
        && is_vector_of(plan, shift, value_heads)
        && plan.states.get(state).is_some_and(|state| state.len == len)
}

fn is_selective_scan(plan: &Plan, scan: &SelectiveScan) -> bool {
    let &SelectiveScan { state, heads, groups, head_dim, state_dim, rate, skip, shift, low, high } =
        scan;
    let len = heads.saturating_mul(head_dim).saturating_mul(state_dim);
    len > 0
        && groups > 0
        && heads.is_multiple_of(groups)
        && [rate, skip, shift].into_iter().all(|id| is_vector_of(plan, id, heads))
        && low <= high
        && plan.states.get(state).is_some_and(|state| state.len == len)
}

fn is_rope_store(plan: &Plan, op: &RopeStore) -> bool {
    let &RopeStore { q_norm, k_norm, rope, heads, kv_heads, cache } = op;
    let Some(cache) = plan.caches.get(cache) else { return false };
    let is_head_norm = |norm: Option<Norm>, heads: usize| {
        norm.is_none_or(|norm| {
            let len = norm_len(plan, &norm).unwrap_or(cache.key_dim);
            is_norm(plan, &norm) && (len == cache.key_dim || len == heads * cache.key_dim)
        })
    };
    is_head_norm(q_norm, heads)
        && is_head_norm(k_norm, kv_heads)
        && is_rope(plan, rope)
        && heads > 0
        && kv_heads == cache.heads
        && matches!(cache.values, Values::Own { dim: _ })
        && 2 * plan.rope(rope).frequencies.len() <= cache.key_dim
}
