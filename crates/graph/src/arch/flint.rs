//! Flint: sinks, and full layers have no rotary embedding.

use super::architecture::{Architecture, Moe, Presence, QkNorm, RopeOff, RopeRule};

pub(super) const FLINT: Architecture = Architecture {
    name: "flint",
    qk_norm: QkNorm::Head(Presence::Required),
    rope: RopeRule { off: RopeOff::Full, ..RopeRule::HALVES },
    moe: Some(Moe::SIGMOID),
    ..Architecture::BASE
};
