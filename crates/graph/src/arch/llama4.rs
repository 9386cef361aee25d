//! Llama 4: every fourth layer sees all positions and has no rotary embedding.

use super::architecture::{Architecture, Moe, Pattern, QkNorm, RopeOff, RopeRule, Temper, Window};

pub(super) const LLAMA4: Architecture = Architecture {
    name: "llama4",
    rope: RopeRule { off: RopeOff::Unwindowed, ..RopeRule::INTERLEAVED },
    qk_norm: QkNorm::BareAfterRope,
    window: Window { pattern: Pattern::LastFull(4), chunked: true, default: Some(8192) },
    temper: Temper::Unrotated(0.1, 8192, 1),
    moe: Some(Moe { normalize: false, weigh_input: true, ..Moe::SIGMOID }),
    ..Architecture::BASE
};
