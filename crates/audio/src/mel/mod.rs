//! Log-mel spectrograms as OpenAI's `whisper/audio.py` computes them.
//!
//! The samples are followed by silence and preceded by their mirror image. Frames of 400 samples
//! begin every 160 samples. The logarithms of a frame's mel energies are limited to eight decades
//! below the greatest one of the whole file, so a file is read twice.

mod filters;
mod frames;
mod spectrum;
mod stream;
mod whole;

pub use stream::MelStream;
pub use whole::{LogMel, log_mel};
