//! Mellum 2. llama.cpp gives layers with a window the base of the others; transformers is followed.

use super::architecture::{Architecture, RopeRule, Window};
use super::qwen3moe::QWEN3MOE;

pub(super) const MELLUM: Architecture = Architecture {
    name: "mellum",
    rope: RopeRule { local_scaled: false, ..RopeRule::HALVES },
    window: Window::period(4),
    ..QWEN3MOE
};
