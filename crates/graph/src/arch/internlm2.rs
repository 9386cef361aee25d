//! InternLM 2 and 2.5.

use super::architecture::{Architecture, RopeRule};

pub(super) const INTERNLM2: Architecture =
    Architecture { name: "internlm2", rope: RopeRule::INTERLEAVED, ..Architecture::BASE };
