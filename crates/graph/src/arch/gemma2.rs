//! Gemma 2. The 27B model, of 46 layers, divides scores by the root of `hidden / heads`.

use super::architecture::{Architecture, AttentionScale, Block, Window};
use super::gemma::GEMMA;

pub(super) const GEMMA2: Architecture = Architecture {
    name: "gemma2",
    block: Block::Sandwich,
    window: Window { default: Some(4096), ..Window::period(2) },
    scale: AttentionScale::HiddenOverHeadsAt(46),
    softcap: true,
    ..GEMMA
};
