//! Qwen 2 and 2.5.

use super::architecture::{Architecture, Presence};
use crate::{Activation, RopeStyle};

pub(super) const QWEN2: Architecture = Architecture {
    name: "qwen2",
    rope: RopeStyle::Halves,
    qkv_bias: Presence::Required,
    qk_norm: Presence::Never,
    activation: Activation::Silu,
};
