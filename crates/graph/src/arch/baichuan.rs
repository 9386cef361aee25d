//! Baichuan 1. The 13B model, of 40 layers, has biases by distance in place of rotations.

use super::architecture::{Alibi, Architecture, RopeOff, RopeRule};

pub(super) const BAICHUAN: Architecture = Architecture {
    name: "baichuan",
    rope: RopeRule { off: RopeOff::AlwaysAt(40), ..RopeRule::INTERLEAVED },
    alibi: Alibi::FixedAt(8.0, 40),
    ..Architecture::BASE
};
