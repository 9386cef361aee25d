//! The API of Anthropic.

pub(super) mod messages;
mod request;
