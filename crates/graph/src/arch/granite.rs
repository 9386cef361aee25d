//! Granite 3 and 4, dense.

use super::architecture::{Architecture, LogitScale, Moe, Multipliers, RopeOff, RopeRule};

pub(super) const GRANITE: Architecture = Architecture {
    name: "granite",
    rope: RopeRule { off: RopeOff::Key, ..RopeRule::INTERLEAVED },
    moe: Some(Moe::SELECTED),
    multipliers: Multipliers::Keys,
    logit_scale: LogitScale::Divide,
    ..Architecture::BASE
};
