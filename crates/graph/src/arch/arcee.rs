//! Arcee AFM.

use super::architecture::{Architecture, FeedForward, RopeRule};
use crate::Activation;

pub(super) const ARCEE: Architecture = Architecture {
    name: "arcee",
    rope: RopeRule::INTERLEAVED,
    ffn: FeedForward::Plain(Activation::ReluSquared),
    ..Architecture::BASE
};
