//! Phi 1.5 and 2.

use super::architecture::{Architecture, Block, FeedForward};
use crate::{Activation, NormKind};

pub(super) const PHI2: Architecture = Architecture {
    name: "phi2",
    norm: NormKind::Layer,
    block: Block::Parallel,
    ffn: FeedForward::Plain(Activation::GeluTanh),
    ..Architecture::BASE
};
