//! Decoding of audio files and of raw PCM.

mod ahead;
mod cancel;
mod codec;
mod decoder;
mod file;
mod guard;
mod input;
mod item;
mod ogg;
mod opus;
mod pipe;
mod prepare;
mod raw;
mod source;
mod track;
mod wav_head;

pub use cancel::Cancel;
pub use file::{AudioFile, Warning};
pub use raw::{Encoding, RawAudio, RawFormat};
pub use wav_head::Begun;
