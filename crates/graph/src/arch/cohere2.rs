//! Command R7B and A: full layers have no rotary embedding.

use super::architecture::{Architecture, RopeOff, RopeRule, Window};
use super::command_r::COMMAND_R;

pub(super) const COHERE2: Architecture = Architecture {
    name: "cohere2",
    rope: RopeRule { off: RopeOff::Unwindowed, ..RopeRule::INTERLEAVED },
    window: Window::period(4),
    ..COMMAND_R
};
