//! Whisper's decoding rules: from logits of tokens to timed segments of text.
//!
//! A [`Recognizer`] is a model: it encodes windows of features and computes logits. [`Features`]
//! are the spectrogram of a file. Everything between them and a [`Segment`] is here: rules of
//! tokens and timestamps, beams, fallback, the windows of a file, the times of words. No module
//! knows a backend.
//!
//! | module | input | output |
//! |---|---|---|
//! | [`decode`] | encoded windows and prompts | tokens and their probabilities |
//! | [`filters`] | sampled tokens | tokens that may follow |
//! | [`transcribe`] | the features of a file | segments, with words where they are wanted |
//! | [`stream`] | growing audio | words that stay |
//!
//! The rules are those of OpenAI's `whisper` package, whose results are the expectations of the
//! tests.
//!
//! # Differences from OpenAI's results
//!
//! - Draws at temperatures above 0 come from a counter-based generator, so a sample differs from
//!   PyTorch's.
//! - Clips end with the file, and a window always advances. OpenAI's code does not return in these
//!   cases.
//! - A beam keeps no tokens of probability 0, and a window in which nothing is allowed ends.
//! - Where the rules of timestamps are off, a text is never taken for a time, and a segment does
//!   not end before it starts.
//! - Words of a window of one frame are at its start. OpenAI's code places them 0.02 s before it.
//! - Segments end with the audio of their window. Text that starts behind it belongs to the segment
//!   before.
//! - A mean log-probability is at least -1000, and the probability of a word is a number.

pub mod compression;
pub mod decode;
mod error;
mod features;
pub mod filters;
mod language;
mod non_speech;
mod ranked;
mod recognizer;
mod segment;
mod softmax;
pub mod stream;
mod text;
pub mod transcribe;
mod vocabulary;
pub mod words;
pub mod write;

pub use error::Error;
pub use features::Features;
pub use language::{Language, UnknownLanguage};
pub use ranked::{Part, Ranked};
pub use recognizer::{Alignment, Append, Filters, Hypothesis, Recognizer, Sizes, Window};
pub use segment::{Segment, Word};
pub use vocabulary::{Tokenizer, Vocabulary, VocabularyError};
