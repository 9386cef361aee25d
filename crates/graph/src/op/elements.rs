//! Functions of elements, strided copies, tables and pooling.

/// A function of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activation {
    /// `x`.
    Identity,
    /// `x / (1 + e⁻ˣ)`.
    Silu,
    /// `x / 2 · (1 + tanh(√(2/π) · (x + 0.044715 · x³)))`.
    GeluTanh,
    /// `x / 2 · (1 + erf(x / √2))`.
    GeluErf,
    /// `x / (1 + e^(-1.702 x))`.
    GeluQuick,
    /// `max(x, 0)`.
    Relu,
    /// `max(x, 0)²`.
    ReluSquared,
    /// `1 / (1 + e⁻ˣ)`.
    Sigmoid,
    /// `tanh(x)`.
    Tanh,
    /// `ln(1 + eˣ)`.
    Softplus,
}

impl Activation {
    /// The name that a printed plan shows.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Silu => "silu",
            Self::GeluTanh => "gelu tanh",
            Self::GeluErf => "gelu erf",
            Self::GeluQuick => "gelu quick",
            Self::Relu => "relu",
            Self::ReluSquared => "relu²",
            Self::Sigmoid => "sigmoid",
            Self::Tanh => "tanh",
            Self::Softplus => "softplus",
        }
    }
}

/// The activation xIELU with factors of a layer (Huang and Schlag, arXiv 2411.13010):
/// `positive · x² + linear · x` above 0, else
/// `negative · (e^min(x, bound) - 1 - x) + linear · x`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Xielu {
    /// The factor of the square.
    pub positive: f32,
    /// The factor below 0.
    pub negative: f32,
    /// The factor of the linear part.
    pub linear: f32,
    /// The bound of exponents, at most 0.
    pub bound: f32,
}

/// The product of a gate and a value, element by element (Shazeer, arXiv 2002.05202).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gating {
    /// `activation(gate[i]) · up[i]`.
    Product(Activation),
    /// `(u + 1) · g · sigmoid(alpha · g)` with `g = min(gate[i], limit)` and
    /// `u = clamp(up[i], -limit, limit)`: the experts of gpt-oss.
    Clamped {
        /// The factor of the gate in the sigmoid.
        alpha: f32,
        /// The bound of gates and values.
        limit: f32,
    },
}

impl Gating {
    /// The name that a printed plan shows.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Product(activation) => activation.name(),
            Self::Clamped { .. } => "clamped swiglu",
        }
    }
}

/// A copy of `count` groups of `width` elements from one row to another: group `i` from
/// `from.offset + i · from.stride` to `to.offset + i · to.stride`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StridedCopy {
    /// Groups.
    pub count: usize,
    /// Elements of a group.
    pub width: usize,
    /// The place in the input's row.
    pub from: Strided,
    /// The place in the output's row.
    pub to: Strided,
}

/// Equally spaced places in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strided {
    /// The first place.
    pub offset: usize,
    /// The distance between places.
    pub stride: usize,
}

/// The rows of a sequence that an embedding summarizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pooling {
    /// The mean of all rows.
    Mean,
    /// The first row.
    First,
    /// The last row.
    Last,
}

/// The row of a table that is added to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableRow {
    /// The row of the position.
    Position,
    /// The same for all rows.
    Fixed(usize),
    /// The row of the token type, which the token carries (see [`Plan::token_types`]).
    ///
    /// [`Plan::token_types`]: crate::Plan::token_types
    TokenType,
}
