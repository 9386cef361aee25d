//! MiniMax M2.

use super::architecture::{Architecture, Moe, QkNorm};

pub(super) const MINIMAX_M2: Architecture = Architecture {
    name: "minimax-m2",
    qk_norm: QkNorm::Row,
    moe: Some(Moe::SIGMOID),
    ..Architecture::BASE
};
