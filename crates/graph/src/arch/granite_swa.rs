//! Granite with windows and sinks, dense and with experts.

use super::architecture::{Architecture, Pattern, RopeOff, RopeRule, Window};
use super::granite::GRANITE;

pub(super) const GRANITE_SWA: Architecture = Architecture {
    name: "granite_swa",
    rope: RopeRule { off: RopeOff::Pattern, ..RopeRule::INTERLEAVED },
    window: Window { pattern: Pattern::FirstFull(4), ..Window::ALL },
    ..GRANITE
};
