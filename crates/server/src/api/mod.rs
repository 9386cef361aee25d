//! The APIs: requests in, responses out.

mod anthropic;
mod docs;
mod native;
mod ollama;
mod openai;
mod page;
mod router;

pub(crate) use router::router;
