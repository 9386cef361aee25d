//! The built-in speech model of Pelton, as the bytes of its GGUF file.

#![no_std]

/// A GGUF file of 7.2 MB: a Whisper of 6.3 million parameters in Q8_0, with its vocabulary. It
/// recognizes synthetic speech of a small grammar, and does not understand people.
pub static GGUF: &[u8] = include_bytes!("../pelton-speech.gguf");
