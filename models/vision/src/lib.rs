//! The built-in vision model of Pelton, as the bytes of its GGUF files.

#![no_std]

/// A GGUF file of 2.3 MB: the Llama of an Idefics3 in Q8_0, with its vocabulary and chat template.
/// It answers questions about drawn shapes and numbers, and knows nothing of photographs.
pub static GGUF: &[u8] = include_bytes!("../pelton-vision.gguf");

/// A GGUF file of 2.0 MB: the tower that turns a picture into 36 of its embeddings.
pub static TOWER: &[u8] = include_bytes!("../pelton-vision-mmproj.gguf");
