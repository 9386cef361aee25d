//! Nemotron 3 and 4, Minitron. Files store the factors of norms plus one.

use super::architecture::{Architecture, FeedForward};
use crate::{Activation, NormKind};

pub(super) const NEMOTRON: Architecture = Architecture {
    name: "nemotron",
    norm: NormKind::Layer,
    ffn: FeedForward::Plain(Activation::ReluSquared),
    ..Architecture::BASE
};
