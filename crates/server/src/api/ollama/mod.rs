//! The API of Ollama: lines of JSON.

pub(super) mod embed;
pub(super) mod generate;
mod keep;
pub(super) mod models;
pub(super) mod pull;
mod request;
mod times;
