//! Phi 3, 3.5, 4 and 4-mini. llama.cpp ignores the window; transformers is followed.

use super::architecture::Architecture;

pub(super) const PHI3: Architecture = Architecture { name: "phi3", ..Architecture::BASE };
