//! The built-in model of Pelton, as the bytes of its GGUF file.

#![no_std]

/// A GGUF file of 7.9 MB: a Llama of 7.3 million parameters in Q8_0, with its vocabulary and chat
/// template.
pub static GGUF: &[u8] = include_bytes!("../pelton-tiny.gguf");

/// Its thresholds for efforts below 1: a file of thresholds, as a load of the engine writes it.
pub static EFFORT: &[u8] = include_bytes!("../thresholds.json");
