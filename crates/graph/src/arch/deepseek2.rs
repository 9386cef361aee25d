//! DeepSeek V2 to V3.1 and R1, Kimi K2, GLM-4.7-Flash. Groups of experts are scored by their
//! best expert with softmax and by the best two with sigmoid, as in transformers.

use super::architecture::{Architecture, MixerRule, Moe, RopeRule, Temper};

pub(super) const DEEPSEEK2: Architecture = Architecture {
    name: "deepseek2",
    rope: RopeRule::INTERLEAVED,
    temper: Temper::Key,
    mixer: MixerRule::Latent,
    moe: Some(Moe::SOFTMAX),
    next_token_heads: true,
    ..Architecture::BASE
};
