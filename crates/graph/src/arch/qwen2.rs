//! Qwen 2 and 2.5.

use super::architecture::{Architecture, Presence};

pub(super) const QWEN2: Architecture =
    Architecture { name: "qwen2", qkv_bias: Presence::Required, ..Architecture::BASE };
