//! GPT-J. llama.cpp has its name and no graph.

use super::architecture::{Architecture, Block, FeedForward, RopeRule};
use crate::{Activation, NormKind};

pub(super) const GPTJ: Architecture = Architecture {
    name: "gptj",
    norm: NormKind::Layer,
    block: Block::Parallel,
    rope: RopeRule::INTERLEAVED,
    ffn: FeedForward::Plain(Activation::GeluTanh),
    ..Architecture::BASE
};
