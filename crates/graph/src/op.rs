//! The ops of a plan.

use crate::{RopeId, WeightId};

/// A root-mean-square norm: `y[i] = weight[i] · x[i] / sqrt(mean(x²) + eps)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norm {
    /// The factors `[row_len]`.
    pub weight: WeightId,
    /// Added to the mean square; in (0, 1).
    pub eps: f32,
}

/// A matrix product with an optional bias: `y[n] = Σ_k weight[n][k] · x[k] + bias[n]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Linear {
    /// The matrix `[outputs, inputs]`.
    pub weight: WeightId,
    /// The summands `[outputs]`.
    pub bias: Option<WeightId>,
}

/// The activation function of a gated feed-forward network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `x / (1 + e⁻ˣ)`.
    Silu,
}

impl Activation {
    /// The name that a printed plan shows.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Silu => "silu",
        }
    }
}

/// Causal attention of query heads over a cache of keys and values.
///
/// The query of a row at position `p` sees the positions `p - window + 1 ..= p` of its own
/// sequence, without a window `0 ..= p`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// The index of the layer's cache in [`Plan::caches`](crate::Plan::caches).
    pub cache: usize,
    /// Query heads; a multiple of the cache's heads. Query head `h` reads KV head
    /// `h / (heads / kv_heads)`.
    pub heads: usize,
    /// The factor of each dot product of query and key.
    pub scale: f32,
    /// Number of positions that a query sees, its own included; `None` for all.
    pub window: Option<usize>,
}

/// Norms and rotation of query and key heads, and the store of keys and values in the cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RopeStore {
    /// The norm of each query head.
    pub q_norm: Option<Norm>,
    /// The norm of each key head.
    pub k_norm: Option<Norm>,
    /// The rotation.
    pub rope: RopeId,
    /// Query heads.
    pub heads: usize,
    /// KV heads.
    pub kv_heads: usize,
    /// The index of the layer's cache.
    pub cache: usize,
}

/// The operation of a step on each row of its input and output buffers.
///
/// The ops of the first group are elementary. Each op of the second group is fused: it has the
/// result of the sequence of elementary ops that its documentation names.
/// [`Plan::fuse`](crate::Plan::fuse) puts it in place of that sequence if the backend accepts it.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// `() → x`: the row of the table that belongs to the token.
    Embed {
        /// The embedding table `[vocab, hidden]`.
        table: WeightId,
    },
    /// `x → y`: the norm of the row.
    Norm(Norm),
    /// `x → y`: the matrix product.
    Linear(Linear),
    /// `x → x`, in place: the norm of each head `[head_dim]`.
    HeadNorm {
        /// The norm, the same for all heads.
        norm: Norm,
        /// Heads in the row.
        heads: usize,
    },
    /// `x → x`, in place: rotates each head by the angles of the row's position.
    Rope {
        /// The rotation.
        rope: RopeId,
        /// Heads in the row.
        heads: usize,
    },
    /// `k v → ()`: writes the row's key and value to the cache at the row's position.
    Store {
        /// The index of the layer's cache.
        cache: usize,
    },
    /// `q → a`: the attention over the cached positions.
    Attend(Attention),
    /// `x y → x`: the sum, in place.
    Add,
    /// `gate up → g`: `activation(gate[i]) · up[i]`.
    Glu(Activation),
    /// `x → y`: the rows that have a [`Want`](crate::Want), in their order.
    Select,

    /// `x → y₀ y₁ …`: a norm, then linears that all read its result.
    NormLinear {
        /// The norm.
        norm: Norm,
        /// The linears, one for each output.
        linears: Vec<Linear>,
    },
    /// `q k v → q k`: the head norms (if any), the rotation of q and k, the store.
    RopeStore(RopeStore),
    /// `q k v → a`: a [`RopeStore`](Self::RopeStore), then the attention.
    RopeAttend(RopeStore, Attention),
    /// `x y → x`: `x + linear(y)`.
    LinearAdd(Linear),
    /// `x → g`: a norm, the gate and up linears, then their gated product.
    NormGlu {
        /// The norm.
        norm: Norm,
        /// The linear whose result goes through the activation.
        gate: Linear,
        /// The linear whose result is multiplied with it.
        up: Linear,
        /// The activation function.
        activation: Activation,
    },
}

impl Op {
    /// The name that a printed plan shows.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Embed { .. } => "embed",
            Self::Norm(_) => "norm",
            Self::Linear(_) => "linear",
            Self::HeadNorm { .. } => "head_norm",
            Self::Rope { .. } => "rope",
            Self::Store { .. } => "store",
            Self::Attend(_) => "attend",
            Self::Add => "add",
            Self::Glu(_) => "glu",
            Self::Select => "select",
            Self::NormLinear { .. } => "norm_linear",
            Self::RopeStore(_) => "rope_store",
            Self::RopeAttend(..) => "rope_attend",
            Self::LinearAdd(_) => "linear_add",
            Self::NormGlu { .. } => "norm_glu",
        }
    }

    /// The weights that it reads, in the order in which it uses them.
    pub fn weights(&self) -> Vec<WeightId> {
        let linear = |l: &Linear| std::iter::once(l.weight).chain(l.bias);
        match self {
            Self::Embed { table } => vec![*table],
            Self::Norm(norm) | Self::HeadNorm { norm, .. } => vec![norm.weight],
            Self::Linear(l) | Self::LinearAdd(l) => linear(l).collect(),
            Self::NormLinear { norm, linears } => {
                std::iter::once(norm.weight).chain(linears.iter().flat_map(linear)).collect()
            }
            Self::RopeStore(r) | Self::RopeAttend(r, _) => {
                [r.q_norm, r.k_norm].into_iter().flatten().map(|n| n.weight).collect()
            }
            Self::NormGlu { norm, gate, up, .. } => {
                std::iter::once(norm.weight).chain(linear(gate)).chain(linear(up)).collect()
            }
            Self::Rope { .. }
            | Self::Store { .. }
            | Self::Attend(_)
            | Self::Add
            | Self::Glu(_)
            | Self::Select => Vec::new(),
        }
    }
}
