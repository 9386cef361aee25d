//! FlexOLMo: OLMo 2 with experts.

use super::architecture::{Architecture, Block, Moe, QkNorm};

pub(super) const FLEX_OLMO: Architecture = Architecture {
    name: "flex_olmo",
    block: Block::PostBranch,
    qk_norm: QkNorm::Row,
    moe: Some(Moe::SOFTMAX),
    ..Architecture::BASE
};
