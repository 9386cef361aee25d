//! StableLM 2 and 3B; the 12B model has parallel branches with one norm.

use super::architecture::{Architecture, Block, QkNorm};
use crate::NormKind;

pub(super) const STABLELM: Architecture = Architecture {
    name: "stablelm",
    norm: NormKind::Layer,
    block: Block::ParallelWithoutNorm,
    qk_norm: QkNorm::HeadEach,
    ..Architecture::BASE
};
