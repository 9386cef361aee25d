//! The server as its clients see it: real requests over loopback to the built-in model.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

mod adapters;
mod anthropic;
mod audio;
mod chats;
mod clients;
mod complaints;
mod connections;
mod constraints;
mod errors;
mod faults;
mod fields;
mod harness;
mod kv_events;
mod lifecycle;
mod llama_cpp;
mod ollama;
mod openai;
mod page;
mod pressure;
mod probes;
mod pull;
mod recorded;
mod replicas;
mod replies;
mod routers;
mod soak;
mod tls;
mod traces;
mod vision;
