//! BERT, RoBERTa, XLM-R and their embedders and rerankers. llama.cpp computes GELU by tanh;
//! transformers, by erf, is followed.

use super::architecture::{Architecture, Block, FeedForward, Head, RopeRule};
use crate::{Activation, NormKind};

pub(super) const BERT: Architecture = Architecture {
    name: "bert",
    norm: NormKind::Layer,
    block: Block::PostResidual,
    rope: RopeRule::NONE,
    ffn: FeedForward::Plain(Activation::GeluErf),
    head: Head::Encoder,
    ..Architecture::BASE
};
