//! OLMoE.

use super::architecture::{Architecture, Moe, QkNorm};

pub(super) const OLMOE: Architecture = Architecture {
    name: "olmoe",
    qk_norm: QkNorm::Row,
    moe: Some(Moe::SOFTMAX),
    ..Architecture::BASE
};
