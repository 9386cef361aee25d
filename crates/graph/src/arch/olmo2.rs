//! OLMo 2 and 3; only OLMo 3 has windows, and extends the context of full layers alone.

use super::architecture::{Architecture, Block, QkNorm, RopeRule, Window};

pub(super) const OLMO2: Architecture = Architecture {
    name: "olmo2",
    block: Block::PostBranch,
    qk_norm: QkNorm::Row,
    rope: RopeRule { local_scaled: false, ..RopeRule::HALVES },
    window: Window::period(4),
    ..Architecture::BASE
};
