//! Text to token ids and back, from the vocabulary that a model file carries.
//!
//! [`Tokenizer::from_metadata`] builds a tokenizer from the `tokenizer.*` keys of a GGUF file:
//! SentencePiece BPE (`llama`), BPE with a pre-tokenizer (`gpt2`, `gemma4`), WordPiece (`bert`)
//! and Unigram (`t5`). [`Tokenizer::decoder`] turns ids back into text as they come, without
//! ever splitting a character.

mod bpe;
mod bytes;
mod charsmap;
mod decode;
mod error;
mod lexicon;
mod merge;
mod pretokenize;
mod special;
mod tokenizer;
mod trie;
mod unigram;
mod vocabulary;
mod wordpiece;

pub use decode::{DecodeState, StreamDecoder};
pub use error::Error;
pub use tokenizer::{Special, Tokenizer};
pub use vocabulary::{Model, TokenType, Vocabulary};
