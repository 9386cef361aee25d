//! HyperCLOVA X: Granite that multiplies logits, with norms of results in most models.

use super::architecture::{Architecture, Block, LogitScale, RopeOff, RopeRule};
use super::granite::GRANITE;

pub(super) const HYPERCLOVAX: Architecture = Architecture {
    name: "hyperclovax",
    block: Block::SandwichIfPresent,
    rope: RopeRule { off: RopeOff::Never, ..RopeRule::INTERLEAVED },
    moe: None,
    logit_scale: LogitScale::Multiply,
    ..GRANITE
};
