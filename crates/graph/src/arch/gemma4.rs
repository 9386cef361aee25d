//! Gemma 4, text.

use super::architecture::{Architecture, AttentionScale, Moe};
use super::gemma3::GEMMA3;

pub(super) const GEMMA4: Architecture = Architecture {
    name: "gemma4",
    value_norm: true,
    scale: AttentionScale::One,
    moe: Some(Moe { with_dense: true, ..Moe::NORMALIZED }),
    gemma_extras: true,
    ..GEMMA3
};
