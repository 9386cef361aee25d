//! K-EXAONE: full layers have no rotary embedding.

use super::architecture::{Architecture, Moe, Presence, QkNorm, RopeOff, RopeRule, Window};

pub(super) const EXAONE_MOE: Architecture = Architecture {
    name: "exaone-moe",
    qk_norm: QkNorm::Head(Presence::Required),
    rope: RopeRule { off: RopeOff::Unwindowed, ..RopeRule::HALVES },
    window: Window::period(4),
    moe: Some(Moe { normalize: false, ..Moe::SIGMOID }),
    ..Architecture::BASE
};
