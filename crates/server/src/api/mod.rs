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
mod sglang;
mod vectors;
mod vllm;

pub(crate) use router::router;
