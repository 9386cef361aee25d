//! The ops of a plan.

mod attention;
mod elements;
mod experts;
mod norm;
mod recurrent;

pub use attention::{Attention, Mask, RopeStore, alibi_slope};
pub use elements::{Activation, Gating, Pooling, Strided, StridedCopy, TableRow, Xielu};
pub use experts::{Adapters, ExpertGroups, ExpertLinear, Route, Scores};
pub use norm::{Norm, NormKind};
pub use recurrent::{GatedDelta, SelectiveScan, ShortConv};

use crate::{RopeId, WeightId};

/// A matrix product with an optional bias: `y[n] = Σ_k weight[n][k] · x[k] + bias[n]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linear {
    /// The matrix `[outputs, inputs]`.
    pub weight: WeightId,
    /// The summands `[outputs]`.
    pub bias: Option<WeightId>,
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
    /// `x → x`, in place: adds a row of a table `[rows, width]`.
    AddTable {
        /// The table.
        table: WeightId,
        /// The row that is added.
        row: TableRow,
    },
    /// `x → x`, in place: a row of [`Input::Embedding`](crate::Input::Embedding) becomes, or is
    /// added, a slice `[width]` of its embedding. Other rows stay.
    Inject {
        /// The index of the slice.
        slice: usize,
        /// Whether the slice is added.
        adds: bool,
    },
    /// `x → y`: the norm of the row.
    Norm(Norm),
    /// `x → y`: the matrix product.
    Linear(Linear),
    /// `x → x`, in place: the norm of each head `[head_dim]`.
    HeadNorm {
        /// The norm. Its weights have the length of a head, or of all heads together.
        norm: Norm,
        /// Heads in the row.
        heads: usize,
    },
    /// `x → y`: head `h` `[inputs]` times matrix `h` of `[heads, outputs, inputs]`.
    HeadLinear {
        /// The matrices.
        weight: WeightId,
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
    /// `x → x`, in place: times `1 + beta · ln(1 + ⌊(position + offset) / interval⌋)`.
    Temper {
        /// The factor of the logarithm.
        beta: f32,
        /// Positions between steps.
        interval: usize,
        /// Added to the position.
        offset: usize,
    },
    /// `k v → ()`: writes the row's key and value to the cache at the row's position.
    Store {
        /// The index of the layer's cache.
        cache: usize,
    },
    /// `q → a`: the attention over the cached positions.
    Attend(Attention),
    /// `x → x`, in place: the convolution over the rows of the sequence.
    ShortConv(ShortConv),
    /// `q k v alpha beta → o`: the linear attention.
    GatedDelta(GatedDelta),
    /// `xbc dt → y`: the scan of a state space, whose inputs `x`, `b` and `c` lie side by side.
    SelectiveScan(SelectiveScan),
    /// `x y → x`: the sum, in place.
    Add,
    /// `gate up → g`: the gated product; `g` may be `gate` or `up`. Each
    /// element of a narrower gate holds for as many neighbours as fill the row.
    Glu(Gating),
    /// `x → x`, in place: the function of each element.
    Activate(Activation),
    /// `x → x`, in place: times a constant.
    Scale(f32),
    /// `x → x`, in place: `cap · tanh(x / cap)`.
    Softcap(f32),
    /// `x → x`, in place: the nearest number within the bounds.
    Clamp {
        /// The least number.
        low: f32,
        /// The greatest number, at least `low`.
        high: f32,
    },
    /// `x → x`, in place: the activation of each element.
    Xielu(Xielu),
    /// `x → y`: a strided copy; other elements of `y` stay.
    Copy(StridedCopy),
    /// `() → ids weights`: the LoRA adapters `[used]` of the row's slot; ids are whole numbers in
    /// f32.
    Adapters(Adapters),
    /// `logits → ids weights`: the choice of experts `[used]` each; ids are whole numbers in f32.
    Route(Route),
    /// `x ids → y`: `y[s] = weight[ids[s]] · x[s] + bias[ids[s]]` for each chosen expert `s`; `x`
    /// has one row for all of them or `[used, inputs]`.
    ExpertLinear(ExpertLinear),
    /// `x ids → x`, in place: `x[s] · factors[ids[s]]` for each chosen expert `s` of
    /// `[used, width]`.
    ExpertScale {
        /// The factor of each expert `[experts]`.
        factors: WeightId,
        /// Chosen experts of a row.
        used: usize,
    },
    /// `y weights → o`: `Σ_s weights[s] · y[s]` of `[used, width]`.
    ExpertSum {
        /// Chosen experts of a row.
        used: usize,
    },
    /// `x → y`: the rows that have a [`Want`](crate::Want), in their order.
    Select,
    /// `x → y`: for each row that has a [`Want`](crate::Want), a summary of the rows of its
    /// sequence in the pass.
    Pool(Pooling),

    /// `x y weights → x`, in place: `x += Σ_s weights[s] · y[s]` of `[used, width]`.
    ExpertSumAdd {
        /// Chosen experts of a row.
        used: usize,
    },
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
        /// The gated product.
        gating: Gating,
    },
    /// `x ids → g`: the gate and up [`ExpertLinear`](Self::ExpertLinear)s, then their gated product
    /// `[used, outputs]`.
    ExpertGlu {
        /// The linear whose result goes through the activation.
        gate: ExpertLinear,
        /// The linear whose result is multiplied with it.
        up: ExpertLinear,
        /// The gated product.
        gating: Gating,
    },
}

impl Op {
    /// Whether it is of the first group, from which the others are fused.
    pub fn is_elementary(&self) -> bool {
        !matches!(
            self,
            Self::ExpertSumAdd { .. }
                | Self::NormLinear { .. }
                | Self::RopeStore(_)
                | Self::RopeAttend(..)
                | Self::LinearAdd(_)
                | Self::NormGlu { .. }
                | Self::ExpertGlu { .. }
        )
    }

    /// The name that a printed plan shows.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Embed { .. } => "embed",
            Self::AddTable { .. } => "add_table",
            Self::Inject { .. } => "inject",
            Self::Norm(_) => "norm",
            Self::Linear(_) => "linear",
            Self::HeadNorm { .. } => "head_norm",
            Self::HeadLinear { .. } => "head_linear",
            Self::Rope { .. } => "rope",
            Self::Temper { .. } => "temper",
            Self::Store { .. } => "store",
            Self::Attend(_) => "attend",
            Self::ShortConv(_) => "short_conv",
            Self::GatedDelta(_) => "gated_delta",
            Self::SelectiveScan(_) => "selective_scan",
            Self::Add => "add",
            Self::Glu(_) => "glu",
            Self::Activate(_) => "activate",
            Self::Scale(_) => "scale",
            Self::Softcap(_) => "softcap",
            Self::Clamp { .. } => "clamp",
            Self::Xielu(_) => "xielu",
            Self::Copy(_) => "copy",
            Self::Adapters(_) => "adapters",
            Self::Route(_) => "route",
            Self::ExpertLinear(_) => "expert_linear",
            Self::ExpertScale { .. } => "expert_scale",
            Self::ExpertSum { .. } => "expert_sum",
            Self::Select => "select",
            Self::Pool(_) => "pool",
            Self::NormLinear { .. } => "norm_linear",
            Self::RopeStore(_) => "rope_store",
            Self::RopeAttend(..) => "rope_attend",
            Self::LinearAdd(_) => "linear_add",
            Self::ExpertSumAdd { .. } => "expert_sum_add",
            Self::NormGlu { .. } => "norm_glu",
            Self::ExpertGlu { .. } => "expert_glu",
        }
    }
}
