//! Qwen 3, dense, and Qwen3-Embedding.

use super::architecture::{Architecture, Presence, QkNorm};

pub(super) const QWEN3: Architecture =
    Architecture { name: "qwen3", qk_norm: QkNorm::Head(Presence::Required), ..Architecture::BASE };
