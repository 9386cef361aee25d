//! The tests of the library, through its public items. One binary, because each links the whole
//! engine.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

mod batching;
mod buckets;
mod built_in_vision;
mod cases;
mod chat;
mod coverage;
mod decoding;
mod detail;
mod effort;
mod errors;
mod examples;
mod families;
mod generate;
mod gpu;
mod heads;
mod late_draws;
mod load_options;
mod logits;
mod lora;
mod models;
mod names;
mod perplexity;
mod placement;
mod prompt_logits;
mod request;
mod rope_options;
mod scheduler;
mod soak;
mod speculation;
mod speech;
mod steps;
mod turns_with_pictures;
mod values;
mod vision;
