//! Qwen 3, dense.

use super::architecture::{Architecture, Presence};
use crate::{Activation, RopeStyle};

pub(super) const QWEN3: Architecture = Architecture {
    name: "qwen3",
    rope: RopeStyle::Halves,
    qkv_bias: Presence::Never,
    qk_norm: Presence::Required,
    activation: Activation::Silu,
};
