//! gpt-oss.

use super::architecture::{Architecture, Moe, RopeRule, Window};
use crate::Gating;

pub(super) const GPT_OSS: Architecture = Architecture {
    name: "gpt-oss",
    ffn_norm: "post_attention_norm",
    rope: RopeRule { yarn_truncate: false, ..RopeRule::HALVES },
    window: Window::period(2),
    moe: Some(Moe { gating: Some(Gating::Clamped { alpha: 1.702, limit: 7.0 }), ..Moe::SELECTED }),
    ..Architecture::BASE
};
