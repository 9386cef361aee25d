//! Jais 1. GGUF files have the factors of embeddings and logits in their tensors.

use super::architecture::{Alibi, Architecture, AttentionScale, LogitScale, Multipliers, RopeRule};
use crate::NormKind;

pub(super) const JAIS: Architecture = Architecture {
    name: "jais",
    norm: NormKind::Layer,
    rope: RopeRule::NONE,
    alibi: Alibi::Key,
    scale: AttentionScale::PerHeadDim,
    multipliers: Multipliers::Keys,
    logit_scale: LogitScale::Multiply,
    ..Architecture::BASE
};
