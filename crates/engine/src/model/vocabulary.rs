//! The part of a vocabulary that is used.

use pelton_tokenizer::{TokenType, Tokenizer};

/// The number of tokens up to the last that is used: vocabularies are padded at the end.
pub(super) fn used_tokens(tokenizer: &Tokenizer) -> usize {
    let ids = 0..tokenizer.vocab_size() as u32;
    let last = ids.rev().find(|&id| tokenizer.token_type(id) != Some(TokenType::Unused));
    last.map_or(0, |id| id as usize + 1)
}
