//! Qwen 3.5 and 3.6 with experts, of which one, with a gate, is shared.

use super::architecture::{Architecture, Moe};
use super::qwen35::QWEN35;

pub(super) const QWEN35MOE: Architecture =
    Architecture { name: "qwen35moe", moe: Some(Moe::NORMALIZED), ..QWEN35 };
