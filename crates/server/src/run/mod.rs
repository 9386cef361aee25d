//! Requests to models: from fields of a body to tokens, replies and values.

mod blocking;
mod chat;
mod constraint;
mod infill;
mod message;
mod options;
mod reply;
mod sampling;
mod tokens;
mod values;

pub(crate) use blocking::{BLOCKING_THREADS, blocking};
pub(crate) use chat::{ChatRequest, EFFORTS, set_effort};
pub(crate) use constraint::constrain;
pub(crate) use infill::infill_prompt;
pub(crate) use message::{message, messages, no_text, placeholder};
pub(crate) use options::response_format;
pub(crate) use options::{Options, Output};
pub(crate) use reply::LogToken;
pub(crate) use reply::{Piece, ReplyRun};
pub(crate) use sampling::{decimal, option_json, option_schema};
pub(crate) use tokens::{Context, End, TokenRun};
pub(crate) use values::{embed, rerank};
