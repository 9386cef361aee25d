//! SmolLM 3: every fourth layer has no rotary embedding.

use super::architecture::{Architecture, RopeOff, RopeRule};

pub(super) const SMOLLM3: Architecture = Architecture {
    name: "smollm3",
    rope: RopeRule { off: RopeOff::Every(4), ..RopeRule::INTERLEAVED },
    ..Architecture::BASE
};
