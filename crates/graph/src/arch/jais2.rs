//! Jais 2.

use super::architecture::{Architecture, FeedForward};
use crate::{Activation, NormKind};

pub(super) const JAIS2: Architecture = Architecture {
    name: "jais2",
    norm: NormKind::Layer,
    ffn: FeedForward::Plain(Activation::ReluSquared),
    ..Architecture::BASE
};
