//! openPangu Embedded.

use super::architecture::Architecture;

pub(super) const PANGU_EMBEDDED: Architecture =
    Architecture { name: "pangu-embedded", ..Architecture::BASE };
