//! Encoding of text to token ids and decoding of ids, with the vocabulary of a model file.
//!
//! [`Tokenizer::from_metadata`] builds a tokenizer from the `tokenizer.*` keys of a GGUF file:
//! SentencePiece BPE (`llama`), BPE with a pre-tokenizer (`gpt2`, `gemma4`), WordPiece (`bert`) and
//! Unigram (`t5`). A `tokenizer.json` that those keys cannot express is under the key
//! `tokenizer.huggingface.json`, whose rules are applied as by the library `tokenizers`.
//! [`Tokenizer::decoder`] decodes ids incrementally and returns complete characters only.

mod bpe;
mod bytes;
mod charsmap;
mod decode;
mod error;
mod lexicon;
mod merge;
mod position;
mod pretokenize;
mod rules;
mod special;
mod tokenizer;
mod trie;
mod twins;
mod unigram;
mod vocabulary;
mod wordpiece;

pub use decode::{DecodeState, StreamDecoder};
pub use error::Error;
pub use special::Special;
pub use tokenizer::Tokenizer;
pub use vocabulary::{Model, TokenType, Vocabulary};
