//! Llama with attention to all rows, as llama-embed-nemotron.

use super::architecture::{Architecture, Head};
use super::llama::LLAMA;

pub(super) const LLAMA_EMBED: Architecture =
    Architecture { name: "llama-embed", head: Head::Encoder, ..LLAMA };
