//! The API of OpenAI.

pub(super) mod chat;
pub(super) mod choices;
pub(super) mod completions;
pub(super) mod embeddings;
pub(super) mod log_probs;
pub(super) mod models;
pub(super) mod prompts;
pub(super) mod rerank;
pub(super) mod responses;
pub(super) mod usage;
