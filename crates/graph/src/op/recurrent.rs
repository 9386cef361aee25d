//! Layers with a recurrent state.

use crate::{Activation, WeightId};

/// A linear attention with a recurrent state (gated delta rule, arXiv 2412.06464).
///
/// For each value head with the state `S` `[key_dim, value_dim]` of its slot, zero before position
/// 0: `S ← e^g · S`, `e = sigmoid(beta) · (v − Sᵀk)`, `S ← S + k·eᵀ`, `o = Sᵀq / √key_dim`, with
/// `g = rate · softplus(alpha + shift)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatedDelta {
    /// The index of its state `[value_heads, key_dim, value_dim]` in
    /// [`Plan::states`](crate::Plan::states).
    pub state: usize,
    /// Heads of queries and keys.
    pub key_heads: usize,
    /// Heads of values; a multiple of the key heads.
    pub value_heads: usize,
    /// Elements of a query or a key.
    pub key_dim: usize,
    /// Elements of a value.
    pub value_dim: usize,
    /// The key head of value head `h`: `h / (value_heads / key_heads)` if true, else
    /// `h % key_heads`.
    pub grouped: bool,
    /// `rate` of each value head `[value_heads]`, at most 0.
    pub rate: WeightId,
    /// `shift` of each value head `[value_heads]`.
    pub shift: WeightId,
}

/// A causal convolution of each channel over the rows of a sequence, then a function.
///
/// `y[p][c] = f(Σ_t weight[c][t] · x[p − taps + 1 + t][c] + bias[c])` with zeros before position 0.
/// The function `f` is the activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortConv {
    /// The index of its state `[taps − 1, channels]`, the newest inputs, in
    /// [`Plan::states`](crate::Plan::states).
    pub state: usize,
    /// The factors `[channels, taps]`.
    pub weight: WeightId,
    /// The summands `[channels]`; `None` for 0.
    pub bias: Option<WeightId>,
    /// Taps, at least 2.
    pub taps: usize,
    /// The function of each sum.
    pub activation: Activation,
}

/// A selective scan of a state space with one decay a head (Mamba-2, arXiv 2405.21060).
///
/// For each head with the state `S` `[state_dim, head_dim]` of its slot, zero before position 0:
/// `Δ = clamp(softplus(dt + shift), low, high)`, `S ← e^(rate · Δ) · S + b · (Δ · x)ᵀ`,
/// `y = Sᵀc + skip · x`. Head `h` has `b` and `c` of group `h / (heads / groups)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SelectiveScan {
    /// The index of its state `[heads, state_dim, head_dim]` in
    /// [`Plan::states`](crate::Plan::states).
    pub state: usize,
    /// Heads.
    pub heads: usize,
    /// Groups of heads; a divisor of the heads.
    pub groups: usize,
    /// Elements of an input and an output of a head.
    pub head_dim: usize,
    /// Elements of `b` and of `c` of a group.
    pub state_dim: usize,
    /// `rate` of each head `[heads]`, at most 0.
    pub rate: WeightId,
    /// `skip` of each head `[heads]`.
    pub skip: WeightId,
    /// `shift` of each head `[heads]`.
    pub shift: WeightId,
    /// The shortest step.
    pub low: f32,
    /// The longest step, a finite number of at least `low`.
    pub high: f32,
}

impl SelectiveScan {
    /// Elements of a row of `x` `[heads, head_dim]`, `b` and `c` `[groups, state_dim]` together.
    pub const fn inputs(&self) -> usize {
        self.heads * self.head_dim + 2 * self.groups * self.state_dim
    }
}
