//! GLM 4.5 and 4.6.

use super::architecture::{Architecture, Moe, Presence, QkNorm};

pub(super) const GLM4MOE: Architecture = Architecture {
    name: "glm4moe",
    ffn_norm: "post_attention_norm",
    qk_norm: QkNorm::Head(Presence::IfPresent),
    moe: Some(Moe::SIGMOID),
    next_token_heads: true,
    ..Architecture::BASE
};
