//! Falcon-H1: a scan and attention in parallel.

use super::architecture::{Architecture, LogitScale, MixerRule, Multipliers};

pub(super) const FALCON_H1: Architecture = Architecture {
    name: "falcon-h1",
    mixer: MixerRule::ScanAndAttention,
    multipliers: Multipliers::Keys,
    logit_scale: LogitScale::Multiply,
    ..Architecture::BASE
};
