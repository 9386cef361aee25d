//! Nemotron-H and Nemotron 3: layers of one branch each.

use super::architecture::{Architecture, Block, FeedForward, MixerRule, Moe, RopeRule};
use crate::Activation;

pub(super) const NEMOTRON_H: Architecture = Architecture {
    name: "nemotron_h",
    block: Block::Single,
    rope: RopeRule::NONE,
    mixer: MixerRule::Scan,
    ffn: FeedForward::Plain(Activation::ReluSquared),
    ..Architecture::BASE
};

pub(super) const NEMOTRON_H_MOE: Architecture =
    Architecture { name: "nemotron_h_moe", moe: Some(Moe::SIGMOID), ..NEMOTRON_H };
