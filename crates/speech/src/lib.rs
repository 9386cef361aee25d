//! Whisper's decoding rules: from logits of tokens to timed segments of text.
//!
//! A [`Recognizer`] is a model: it encodes windows of features and computes logits. [`Features`] are the
//! spectrogram of a file. Everything between them and a [`Segment`] is here: rules of tokens and
//! timestamps, beams, fallback, the windows of a file, the times of words. No module knows a backend.

mod features;
mod recognizer;
mod segment;
pub mod write;

pub use features::Features;
pub use recognizer::{Alignment, Append, Hypothesis, Recognizer, Sizes, Window};
pub use segment::{Segment, Word};
