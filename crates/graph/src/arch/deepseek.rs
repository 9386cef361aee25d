//! DeepSeek 1.

use super::architecture::{Architecture, Moe, RopeRule};

pub(super) const DEEPSEEK: Architecture = Architecture {
    name: "deepseek",
    rope: RopeRule::INTERLEAVED,
    moe: Some(Moe::SOFTMAX),
    ..Architecture::BASE
};
