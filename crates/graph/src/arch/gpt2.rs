//! GPT-2: positions are a table.

use super::architecture::{Architecture, FeedForward, RopeRule};
use crate::{Activation, NormKind};

pub(super) const GPT2: Architecture = Architecture {
    name: "gpt2",
    norm: NormKind::Layer,
    rope: RopeRule::NONE,
    ffn: FeedForward::Plain(Activation::GeluTanh),
    // causal masks that early converters kept
    unused: &["attn.bias", "attn.masked_bias"],
    ..Architecture::BASE
};
