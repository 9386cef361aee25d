//! Qwen 1: the key of the feed-forward width counts the gate's rows and the others.

use super::architecture::{Architecture, Presence};

pub(super) const QWEN: Architecture =
    Architecture { name: "qwen", qkv_bias: Presence::Required, ffn_parts: 2, ..Architecture::BASE };
