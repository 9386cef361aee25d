//! Requests to models: from fields of a body to tokens, replies and values.
//!
//! A handler takes fields out of a body, leases a model, and starts a `ReplyRun` on a thread that
//! may block. The API's `Sink` turns its pieces into frames. A stream writes the frames and a whole
//! body is joined from them, so both say the same. The task of a stream ends with the client, which
//! drops the run, which cancels the request.

mod batch;
mod blocking;
mod chat;
mod constraint;
mod infill;
mod known;
mod message;
mod options;
mod pictures;
mod reply;
mod sampling;
mod tokens;
mod values;

pub(crate) use batch::Batch;
pub(crate) use blocking::{BLOCKING_THREADS, blocking, starting};
pub(crate) use chat::{ChatRequest, EFFORTS, set_effort, thinking};
pub(crate) use constraint::constrain;
pub(crate) use infill::infill_prompt;
pub(crate) use message::{left_out, message, messages, no_text};
pub(crate) use options::response_format;
pub(crate) use options::{Options, Output};
pub(crate) use pictures::{content, image, parts, placeholder};
pub(crate) use reply::LogToken;
pub(crate) use reply::{Piece, ReplyRun};
pub(crate) use sampling::{decimal, option_json, option_schema};
pub(crate) use tokens::{Context, End, TokenRun};
pub(crate) use values::{embed, rerank};
