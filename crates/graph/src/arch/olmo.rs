//! OLMo 1: layer norms without factors.

use super::architecture::{Architecture, RopeRule};
use crate::NormKind;

pub(super) const OLMO: Architecture = Architecture {
    name: "olmo",
    norm: NormKind::Layer,
    bare_norms: true,
    rope: RopeRule::INTERLEAVED,
    ..Architecture::BASE
};
