//! GPT-NeoX and Pythia. llama.cpp computes GELU by tanh; transformers, by erf, is followed.

use super::architecture::{Architecture, Block, FeedForward};
use crate::{Activation, NormKind};

pub(super) const GPTNEOX: Architecture = Architecture {
    name: "gptneox",
    norm: NormKind::Layer,
    block: Block::ParallelByKey,
    ffn: FeedForward::Plain(Activation::GeluErf),
    ..Architecture::BASE
};
