//! GLM 4 (0414).

use super::architecture::{Architecture, Block, RopeRule};

pub(super) const GLM4: Architecture = Architecture {
    name: "glm4",
    block: Block::Sandwich,
    rope: RopeRule::INTERLEAVED,
    ..Architecture::BASE
};
