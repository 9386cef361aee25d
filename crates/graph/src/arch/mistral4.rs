//! Mistral Small 4: the latent attention of DeepSeek-V2.

use super::architecture::Architecture;
use super::deepseek2::DEEPSEEK2;

pub(super) const MISTRAL4: Architecture =
    Architecture { name: "mistral4", next_token_heads: false, ..DEEPSEEK2 };
