//! Command lines of other programs: llama.cpp's, whisper.cpp's, OpenAI's Whisper,
//! vLLM's and Ollama's.
//!
//! Each program has a table of its options with what becomes of them. [`rewrite`] turns a command
//! line with such options into one of Pelton's before it is parsed. The pages
//! `docs/coming-from-*.md` are made from the tables.

mod convert;
mod environment;
mod llama_cli;
mod llama_common;
mod llama_sampling;
mod llama_server;
mod llama_tools;
mod ollama;
mod openai_whisper;
mod own;
mod problem;
mod programs;
mod refuse;
mod rewrite;
mod rotations;
mod speech;
mod table;
mod together;
mod vllm;
mod walk;
mod whisper_cli;

#[cfg(test)]
mod pages;
#[cfg(test)]
mod tests;

pub(crate) use refuse::refuse;
pub(crate) use rewrite::rewritten;
