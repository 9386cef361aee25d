//! Gemma 1. Files store the factors of norms plus one.

use super::architecture::{Architecture, Embed, FeedForward};
use crate::Activation;

pub(super) const GEMMA: Architecture = Architecture {
    name: "gemma",
    embed: Embed::SqrtHidden,
    ffn: FeedForward::Gated(Activation::GeluTanh),
    ..Architecture::BASE
};
