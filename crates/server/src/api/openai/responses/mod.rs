//! The Responses API.

mod build;
mod create;
mod items;
mod request;

pub(in crate::api) use create::{create, input_tokens};
