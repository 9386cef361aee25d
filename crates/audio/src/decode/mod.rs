//! Decoding of audio files and of raw PCM.

mod codec;
mod edit;
mod file;
mod input;
mod pipe;
mod raw;
mod track;

pub use file::{AudioFile, Warning};
pub use raw::{Encoding, RawAudio, RawFormat};
