//! Audio files to features of speech.
//!
//! The crate decodes audio files, resamples them to 16,000 samples a second and one channel,
//! computes log-mel spectrograms, and finds the parts with voices. Audio is hostile input:
//! everything is checked before it is used, and files of any length stream in bounded memory.
//!
//! [`AudioFile`] and [`RawAudio`] decode. [`Samples`] is what the rest reads from: a file, or
//! samples in memory ([`Memory`]). [`log_mel`] and [`MelStream`] compute features as OpenAI's code
//! does. [`VoiceDetector`] finds speech, [`Packing`] puts it in windows.
//!
//! ```
//! use pelton_audio::{AudioFile, MelStream};
//!
//! # fn main() -> Result<(), pelton_audio::AudioError> {
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/containers/vbr.mp3");
//! let file = AudioFile::open(path)?;
//! assert_eq!((file.codec(), file.duration()), ("MP3", Some(0.3)));
//! let mut features = MelStream::new(file, 80)?;
//! let mut window = vec![0.0; 3000 * 80];
//! features.read(0, &mut window)?;
//! assert_eq!(features.frames(), 30);
//! # Ok(())
//! # }
//! ```

mod decode;
mod error;
mod mel;
mod resample;
mod samples;
mod voice;

pub use decode::{AudioFile, Begun, Cancel, Encoding, RawAudio, RawFormat, Warning};
pub use error::AudioError;
pub use mel::{LogMel, MelStream, log_mel};
pub use samples::{Memory, SAMPLE_RATE, Samples};

pub use voice::{Packing, Piece, Voice, VoiceDetector, VoiceOptions, voices};
