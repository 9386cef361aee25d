//! MiniCPM 1 to 4. llama.cpp takes the inverse of the logits' divisor where the file has none.

use super::architecture::{Architecture, Multipliers, RopeRule};
use super::granite::GRANITE;

pub(super) const MINICPM: Architecture = Architecture {
    name: "minicpm",
    rope: RopeRule::INTERLEAVED,
    multipliers: Multipliers::MiniCpm,
    ..GRANITE
};
