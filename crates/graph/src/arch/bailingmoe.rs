//! Ling 1 and 2, and Sarvam.

use super::architecture::{Architecture, Moe, Presence, QkNorm, RopeRule};

pub(super) const BAILINGMOE: Architecture = Architecture {
    name: "bailingmoe",
    rope: RopeRule::INTERLEAVED,
    moe: Some(Moe::SOFTMAX),
    ..Architecture::BASE
};

pub(super) const BAILINGMOE2: Architecture = Architecture {
    name: "bailingmoe2",
    rope: RopeRule::HALVES,
    qk_norm: QkNorm::Head(Presence::Required),
    moe: Some(Moe { normalize: false, ..Moe::SIGMOID }),
    ..BAILINGMOE
};
