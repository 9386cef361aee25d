//! Granite 3 and 4 with experts.

use super::architecture::Architecture;
use super::granite::GRANITE;

pub(super) const GRANITEMOE: Architecture = Architecture { name: "granitemoe", ..GRANITE };
