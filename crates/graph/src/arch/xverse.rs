//! XVERSE.

use super::architecture::{Architecture, RopeRule};

pub(super) const XVERSE: Architecture =
    Architecture { name: "xverse", rope: RopeRule::INTERLEAVED, ..Architecture::BASE };
