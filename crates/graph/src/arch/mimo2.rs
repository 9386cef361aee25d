//! MiMo-V2: values are shorter than keys, and layers with windows have sinks.

use super::architecture::{Architecture, Moe, RopeRule};

pub(super) const MIMO2: Architecture = Architecture {
    name: "mimo2",
    rope: RopeRule { local_scaled: false, ..RopeRule::HALVES },
    moe: Some(Moe::SIGMOID),
    ..Architecture::BASE
};
