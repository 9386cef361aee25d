//! The Responses API.

mod build;
mod create;
mod request;

pub(in crate::api) use create::create;
