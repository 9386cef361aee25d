//! BLOOM. Biases of scores by distance (ALiBi, arXiv 2108.12409) stand for rotations.

use super::architecture::{Alibi, Architecture, FeedForward, RopeRule};
use crate::{Activation, NormKind};

pub(super) const BLOOM: Architecture = Architecture {
    name: "bloom",
    norm: NormKind::Layer,
    rope: RopeRule::NONE,
    alibi: Alibi::Fixed(8.0),
    ffn: FeedForward::Plain(Activation::GeluTanh),
    ..Architecture::BASE
};
