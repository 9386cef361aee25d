//! The APIs: requests in, responses out.

mod anthropic;
mod audio;
mod docs;
mod llama_cpp;
mod ollama;
mod openai;
mod page;
mod router;
mod routers;
mod vectors;

pub(crate) use router::router;
