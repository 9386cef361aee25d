//! Command R and R+. llama.cpp reads norms of queries and keys from 64 layers on only.

use super::architecture::{Architecture, Block, LogitScale, QkNorm, RopeRule};
use crate::NormKind;

pub(super) const COMMAND_R: Architecture = Architecture {
    name: "command-r",
    norm: NormKind::Layer,
    block: Block::Parallel,
    qk_norm: QkNorm::HeadEach,
    rope: RopeRule::INTERLEAVED,
    logit_scale: LogitScale::Multiply,
    ..Architecture::BASE
};
