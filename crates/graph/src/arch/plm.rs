//! PLM: latent attention, and squared ReLU.

use super::architecture::{Architecture, FeedForward, MixerRule, RopeRule};
use crate::Activation;

pub(super) const PLM: Architecture = Architecture {
    name: "plm",
    rope: RopeRule::INTERLEAVED,
    mixer: MixerRule::Latent,
    ffn: FeedForward::Plain(Activation::ReluSquared),
    ..Architecture::BASE
};
