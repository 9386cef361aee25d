//! Maincoder: queries and keys have norms after the rotation.

use super::architecture::{Architecture, QkNorm, RopeRule};

pub(super) const MAINCODER: Architecture = Architecture {
    name: "maincoder",
    qk_norm: QkNorm::HeadAfterRope,
    rope: RopeRule::INTERLEAVED,
    ..Architecture::BASE
};
