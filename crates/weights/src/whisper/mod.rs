//! Whisper: the keys, tensors and tokens of a checkpoint, whatever file it is read from.
//!
//! Tensors have the names of OpenAI's implementation (github.com/openai/whisper,
//! `whisper/model.py`), tokens the texts and the order of its tokenizer. Files of whisper.cpp state
//! neither special tokens nor merges; both follow from the vocabulary.

mod alignment;
mod languages;
mod mel;
mod merges;
mod positions;
mod sizes;
mod tensors;
mod tokens;

pub(crate) use alignment::known_heads;
pub(crate) use mel::{FREQUENCIES, filters};
pub(crate) use positions::{complete, sinusoids};
pub(crate) use sizes::{ARCHITECTURE, Limit, Side, Sizes, limits};
pub(crate) use tensors::{Expected, Kind, TOKEN_EMBEDDING, expected};
pub(crate) use tokens::{
    END, NO_SPEECH, NO_TIMESTAMPS, START, TIMESTAMPS, Tokens, specials, timestamp,
};

/// The key of the heads whose attention follows the audio: layer, head, layer, head ….
pub(crate) const ALIGNMENT_HEADS: &str = "whisper.alignment_heads";
