//! EXAONE 3.

use super::architecture::Architecture;

pub(super) const EXAONE: Architecture = Architecture { name: "exaone", ..Architecture::BASE };
