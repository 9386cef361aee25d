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
