//! MiniCPM 3: latent attention, and the factors of MiniCPM.

use super::architecture::{Architecture, MixerRule, RopeRule};
use super::minicpm::MINICPM;

pub(super) const MINICPM3: Architecture = Architecture {
    name: "minicpm3",
    rope: RopeRule::HALVES,
    mixer: MixerRule::Latent,
    moe: None,
    ..MINICPM
};
