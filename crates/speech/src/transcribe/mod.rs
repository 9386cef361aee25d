//! Transcription of whole files.
//!
//! [`transcribe`] goes through a file as OpenAI's code does: the timestamps of a window decide
//! where the next one begins, and its text is the next prompt. [`transcribe_voices`] does so in
//! pieces that the caller has cut. [`transcribe_pieces`] decodes them many in a batch and without
//! prompts, which is faster.

mod anomalies;
mod fallback;
mod file;
mod observer;
mod options;
mod pieces;
mod prompts;
mod slices;
mod transcript;
mod voices;
mod word_times;

pub use file::{transcribe, transcribe_voices};
pub use observer::Observer;
pub use options::TranscribeOptions;
pub use pieces::transcribe_pieces;
pub use transcript::Transcript;
pub use voices::Piece;
