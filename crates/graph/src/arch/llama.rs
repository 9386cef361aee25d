//! Llama 1 to 3.3, Mistral, Mixtral, SmolLM, TinyLlama, Yi: GGUF names them all `llama`.

use super::architecture::{Architecture, Moe, RopeRule};

pub(super) const LLAMA: Architecture = Architecture {
    name: "llama",
    rope: RopeRule::INTERLEAVED,
    moe: Some(Moe::NORMALIZED),
    ..Architecture::BASE
};
