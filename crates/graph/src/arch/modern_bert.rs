//! ModernBERT.

use super::architecture::{Architecture, FeedForward, Head, Pattern, RopeRule, Window};
use crate::{Activation, NormKind};

pub(super) const MODERN_BERT: Architecture = Architecture {
    name: "modern-bert",
    norm: NormKind::Layer,
    rope: RopeRule::LOCAL,
    window: Window { pattern: Pattern::FirstFull(3), ..Window::ALL },
    ffn: FeedForward::Gated(Activation::GeluErf),
    head: Head::Encoder,
    ..Architecture::BASE
};
