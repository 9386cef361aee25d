//! MPT. llama.cpp computes GELU by tanh; transformers, by erf, is followed.

use super::architecture::{Alibi, Architecture, FeedForward};
use super::bloom::BLOOM;
use crate::Activation;

pub(super) const MPT: Architecture = Architecture {
    name: "mpt",
    alibi: Alibi::Key,
    ffn: FeedForward::Plain(Activation::GeluErf),
    ..BLOOM
};
