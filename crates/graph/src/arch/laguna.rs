//! Laguna: attention has a gate of elements or of heads, whose numbers differ between layers.

use super::architecture::{Architecture, Moe, Pattern, Presence, QkNorm, RopeRule, Window};
use crate::Activation;

pub(super) const LAGUNA: Architecture = Architecture {
    name: "laguna",
    qk_norm: QkNorm::Head(Presence::Required),
    attention_gate: Some(Activation::Softplus),
    rope: RopeRule { local_scaled: false, ..RopeRule::HALVES },
    window: Window { pattern: Pattern::FirstFull(4), ..Window::ALL },
    moe: Some(Moe::SIGMOID),
    ..Architecture::BASE
};
