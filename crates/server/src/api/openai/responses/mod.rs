//! The Responses API.

mod build;
mod create;
mod items;
mod request;
mod stored;

pub(in crate::api) use create::{create, input_tokens};
pub(in crate::api) use stored::{read, remove};
