//! EuroBERT: Llama with attention to all rows.

use super::architecture::{Architecture, Head};

pub(super) const EUROBERT: Architecture =
    Architecture { name: "eurobert", head: Head::Encoder, ..Architecture::BASE };
