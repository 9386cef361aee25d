//! VaultGemma: Gemma 2 without norms of results.

use super::architecture::{Architecture, Block};
use super::gemma2::GEMMA2;

pub(super) const VAULTGEMMA: Architecture =
    Architecture { name: "vaultgemma", block: Block::Pre, ..GEMMA2 };
