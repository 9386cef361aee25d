//! EmbeddingGemma.

use super::architecture::{Architecture, Head};
use super::gemma3::GEMMA3;

pub(super) const GEMMA_EMBEDDING: Architecture =
    Architecture { name: "gemma-embedding", head: Head::Encoder, ..GEMMA3 };
