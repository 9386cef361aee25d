//! Muse Glimmer: attention has a gate, and full layers have no rotary embedding.

use super::architecture::{
    Architecture, AttentionScale, Block, Embed, LogitScale, QkNorm, RopeOff, RopeRule, Window,
};
use crate::Activation;

pub(super) const MUSE_GLIMMER: Architecture = Architecture {
    name: "muse-glimmer",
    post_norm_eps: Some(1e-8),
    block: Block::Sandwich,
    embed: Embed::Normed,
    qk_norm: QkNorm::HeadOrBare,
    attention_gate: Some(Activation::Sigmoid),
    rope: RopeRule { off: RopeOff::Full, ..RopeRule::INTERLEAVED },
    window: Window::period(4),
    scale: AttentionScale::Key,
    logit_scale: LogitScale::Multiply,
    softcap: true,
    ..Architecture::BASE
};
