//! Arcee Trinity: attention has a gate, and full layers have no rotary embedding.

use super::architecture::{
    Architecture, Block, Embed, Moe, Presence, QkNorm, RopeOff, RopeRule, Window,
};
use crate::Activation;

pub(super) const AFMOE: Architecture = Architecture {
    name: "afmoe",
    block: Block::Sandwich,
    embed: Embed::SqrtHidden,
    qk_norm: QkNorm::Head(Presence::Required),
    attention_gate: Some(Activation::Sigmoid),
    rope: RopeRule { off: RopeOff::Full, ..RopeRule::HALVES },
    window: Window::period(4),
    moe: Some(Moe::SIGMOID),
    ..Architecture::BASE
};
