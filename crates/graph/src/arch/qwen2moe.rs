//! Qwen 1.5 and 2 with experts, of which one, with a gate, is shared.

use super::architecture::{Architecture, Moe};
use super::qwen2::QWEN2;

pub(super) const QWEN2MOE: Architecture =
    Architecture { name: "qwen2moe", moe: Some(Moe::SOFTMAX), ..QWEN2 };
