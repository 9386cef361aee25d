//! Apertus: the activation xIELU.

use super::architecture::{Architecture, FeedForward, Presence, QkNorm};
use crate::Activation;

pub(super) const APERTUS: Architecture = Architecture {
    name: "apertus",
    qk_norm: QkNorm::Head(Presence::Required),
    ffn: FeedForward::Plain(Activation::Identity),
    xielu: true,
    ..Architecture::BASE
};
