//! The rules compared with OpenAI's own code, both over the same model without weights.
//!
//! `tests/make_expected.py` writes the expectations. Texts, tokens and languages are equal; numbers
//! differ by at most 1e-5, since PyTorch sums log-probabilities in f32.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panic")]

#[path = "../fake/mod.rs"]
mod fake;

mod decode;
mod expected;
mod filters;
mod timing;
mod transcribe;
mod vocabulary;
