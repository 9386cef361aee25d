//! Requests with audio: from a form to segments of text.
//!
//! A request is checked before it waits for its turn, and holds only the bytes of its audio until
//! then. A decoder is built within the turn, on a thread of its own: the turn ends even if the
//! decoder does not. The request runs on another thread, and its segments come through a channel. A
//! run that is dropped, because its client has gone, ends before the next step of the decoder.

mod options;
mod pull;
mod run;

pub(crate) use options::Options;
pub(crate) use run::{Found, Hearing, check};
