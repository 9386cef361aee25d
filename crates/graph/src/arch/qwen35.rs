//! Qwen 3.5 and 3.6, dense. Converters to GGUF reorder the value heads.

use super::architecture::{Architecture, MixerRule, Presence, QkNorm, RopeAxes, RopeRule};

pub(super) const QWEN35: Architecture = Architecture {
    name: "qwen35",
    ffn_norm: "post_attention_norm",
    qk_norm: QkNorm::Head(Presence::Required),
    query_gate: true,
    rope: RopeRule { axes: RopeAxes::Interleaved, ..RopeRule::HALVES },
    mixer: MixerRule::Delta { tiled: true },
    next_token_heads: true,
    ..Architecture::BASE
};
