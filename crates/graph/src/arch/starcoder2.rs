//! StarCoder 2.

use super::architecture::{Architecture, FeedForward};
use crate::{Activation, NormKind};

pub(super) const STARCODER2: Architecture = Architecture {
    name: "starcoder2",
    norm: NormKind::Layer,
    ffn: FeedForward::Plain(Activation::GeluTanh),
    ..Architecture::BASE
};
