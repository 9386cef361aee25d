//! Qwen 3 with experts.

use super::architecture::{Architecture, Moe};
use super::qwen3::QWEN3;

pub(super) const QWEN3MOE: Architecture =
    Architecture { name: "qwen3moe", moe: Some(Moe::NORMALIZED), ..QWEN3 };
