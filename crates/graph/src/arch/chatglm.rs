//! ChatGLM 3 and GLM 4 (9B).

use super::architecture::{Architecture, RopeRule};

pub(super) const CHATGLM: Architecture =
    Architecture { name: "chatglm", rope: RopeRule::INTERLEAVED, ..Architecture::BASE };
