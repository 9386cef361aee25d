//! Hunyuan 3.

use super::architecture::{Architecture, Moe, Presence, QkNorm};

pub(super) const HY_V3: Architecture = Architecture {
    name: "hy_v3",
    qk_norm: QkNorm::Head(Presence::Required),
    moe: Some(Moe::SIGMOID),
    ..Architecture::BASE
};
