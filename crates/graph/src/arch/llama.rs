//! Llama 1 to 3.3, Mistral, SmolLM, TinyLlama: GGUF names them all `llama`.

use super::architecture::{Architecture, Presence};
use crate::{Activation, RopeStyle};

pub(super) const LLAMA: Architecture = Architecture {
    name: "llama",
    // converters reorder the query and key rows so that the elements of a pair are adjacent
    rope: RopeStyle::Interleaved,
    qkv_bias: Presence::IfPresent,
    qk_norm: Presence::Never,
    activation: Activation::Silu,
};
