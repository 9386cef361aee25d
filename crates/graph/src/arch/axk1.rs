//! A.X K1: DeepSeek V3 with a norm of the result of experts.

use super::architecture::{Architecture, Block};
use super::deepseek2::DEEPSEEK2;

pub(super) const AXK1: Architecture = Architecture {
    name: "axk1",
    block: Block::SandwichIfPresent,
    next_token_heads: false,
    ..DEEPSEEK2
};
