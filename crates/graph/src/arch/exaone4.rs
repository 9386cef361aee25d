//! EXAONE 4; in the 32B model full layers have no rotary embedding.

use super::architecture::{Architecture, Block, Presence, QkNorm, RopeOff, RopeRule, Window};

pub(super) const EXAONE4: Architecture = Architecture {
    name: "exaone4",
    block: Block::PostBranch,
    qk_norm: QkNorm::Head(Presence::Required),
    rope: RopeRule { off: RopeOff::Unwindowed, ..RopeRule::HALVES },
    window: Window::period(4),
    ..Architecture::BASE
};
