//! Falcon 1. llama.cpp computes GELU by tanh; transformers, by erf, is followed.

use super::architecture::{Architecture, Block, FeedForward};
use crate::{Activation, NormKind};

pub(super) const FALCON: Architecture = Architecture {
    name: "falcon",
    norm: NormKind::Layer,
    block: Block::Parallel,
    ffn: FeedForward::Plain(Activation::GeluErf),
    ..Architecture::BASE
};
