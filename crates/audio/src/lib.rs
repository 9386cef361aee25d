//! Audio files to features of speech.
//!
//! The crate decodes audio files, resamples them to 16,000 samples a second and one channel, computes
//! log-mel spectrograms, and finds the parts with voices. Audio is hostile input: everything is
//! checked before it is used, and files of any length stream in bounded memory.

/// Samples a second of all audio after decoding.
pub const SAMPLE_RATE: u32 = 16_000;
