//! Paths of vLLM beside those of OpenAI.

pub(super) mod pooling;
pub(super) mod score;
pub(super) mod state;
