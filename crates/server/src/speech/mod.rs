//! Requests with audio: from a form to segments of text.
//!
//! A request is checked and its audio is opened before it waits for its turn. It runs on a thread of its
//! own then, and its segments come through a channel. A run that is dropped, because its client has
//! gone, ends before the next step of the decoder.

mod options;
mod run;

pub(crate) use options::Options;
pub(crate) use run::{Found, Hearing, open};
