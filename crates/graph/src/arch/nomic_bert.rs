//! nomic-embed-text 1 and 1.5.

use super::architecture::{Architecture, FeedForward, RopeRule};
use super::bert::BERT;
use crate::Activation;

pub(super) const NOMIC_BERT: Architecture = Architecture {
    name: "nomic-bert",
    rope: RopeRule::HALVES,
    ffn: FeedForward::Gated(Activation::Silu),
    ..BERT
};
