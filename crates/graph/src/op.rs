//! The operations that a plan is made of.

use crate::plan::{RopeId, WeightId};

/// A root-mean-square norm: `y[i] = weight[i] · x[i] / sqrt(mean(x²) + eps)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norm {
    /// One factor for each element.
    pub weight: WeightId,
    /// Added to the mean square; in (0, 1).
    pub eps: f32,
}

/// A matrix product with an optional bias: `y[n] = Σ_k weight[n][k] · x[k] + bias[n]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Linear {
    /// A row for each output.
    pub weight: WeightId,
    /// One summand for each output.
    pub bias: Option<WeightId>,
}

/// The function in a gated feed-forward network.
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
/// sequence (from 0 where there is no window).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// The index of the layer's cache in [`Plan::caches`](crate::Plan::caches).
    pub cache: usize,
    /// Query heads; a multiple of the cache's heads. Head `h` reads the key head
    /// `h / (heads / kv_heads)`.
    pub heads: usize,
    /// The factor on each product of query and key.
    pub scale: f32,
    /// How many positions a query sees, itself included; `None` for all.
    pub window: Option<usize>,
}

/// What is done to queries, keys and values before attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RopeStore {
    /// The norm of the query heads.
    pub q_norm: Option<Norm>,
    /// The norm of the key heads.
    pub k_norm: Option<Norm>,
    /// The angles.
    pub rope: RopeId,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// The index of the layer's cache.
    pub cache: usize,
}

/// What a step does with its input and output buffers, row by row.
///
/// The first group is elementary. Each op of the second group stands for the sequence that its
/// documentation names, and must give the same result: [`Plan::fuse`](crate::Plan::fuse) makes it
/// from that sequence, and only for a backend that has it.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// `() → x`: the table's row for the row's token.
    Embed {
        /// A row for each token.
        table: WeightId,
    },
    /// `x → y`: a norm over the whole row.
    Norm(Norm),
    /// `x → y`.
    Linear(Linear),
    /// `x → x`, in place: a norm over each head's elements.
    HeadNorm {
        /// The factors, shared by all heads.
        norm: Norm,
        /// Heads in the row.
        heads: usize,
    },
    /// `x → x`, in place: turns each head by the angles of the row's position.
    Rope {
        /// The angles.
        rope: RopeId,
        /// Heads in the row.
        heads: usize,
    },
    /// `k v → ()`: writes the row's key and value to the cache at the row's position.
    Store {
        /// The index of the layer's cache.
        cache: usize,
    },
    /// `q → a`.
    Attend(Attention),
    /// `x y → x`: the sum, in place.
    Add,
    /// `gate up → g`: `activation(gate[i]) · up[i]`.
    Glu(Activation),
    /// `x → y`: only the rows whose logits are asked for, in that order.
    Select,

    /// `x → y₀ y₁ …`: a norm, then linears that all read it.
    NormLinear {
        /// The norm.
        norm: Norm,
        /// One for each output.
        linears: Vec<Linear>,
    },
    /// `q k v → q k`: the head norms (where there are any), the rotation of q and k, the store.
    RopeStore(RopeStore),
    /// `q k v → a`: a [`RopeStore`](Self::RopeStore), then the attention over what is cached.
    RopeAttend(RopeStore, Attention),
    /// `x y → x`: `x + linear(y)`.
    LinearAdd(Linear),
    /// `x → g`: a norm, the gate and up linears, and their gated product.
    NormGlu {
        /// The norm.
        norm: Norm,
        /// The linear that goes through the activation.
        gate: Linear,
        /// The linear that is multiplied with it.
        up: Linear,
        /// The function.
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
