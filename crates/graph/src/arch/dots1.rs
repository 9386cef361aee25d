//! dots.llm1.

use super::architecture::{Architecture, Moe, Presence, QkNorm};

pub(super) const DOTS1: Architecture = Architecture {
    name: "dots1",
    qk_norm: QkNorm::Head(Presence::Required),
    moe: Some(Moe { normalize: false, ..Moe::SIGMOID }),
    ..Architecture::BASE
};
