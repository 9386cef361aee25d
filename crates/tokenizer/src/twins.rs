//! Tokens with the same text, which some published files have (llama.cpp#25739).

use hashbrown::HashMap;

use crate::vocabulary::{TokenType, Vocabulary};

/// The longest text in a log line, in characters.
const SHOWN: usize = 40;

/// Says once of a vocabulary that it has tokens with the same text. The lowest id of each text is
/// the one that texts are encoded to; every id is decoded.
pub(crate) fn warn(vocabulary: &Vocabulary<'_>) {
    let mut first = HashMap::with_capacity(vocabulary.tokens.len());
    let mut twins = Vec::new();
    for ((id, &text), &token_type) in (0u32..).zip(&vocabulary.tokens).zip(&vocabulary.types) {
        if token_type == TokenType::Unused || text.is_empty() {
            continue;
        }
        match first.get(text) {
            Some(&lower) => twins.push((lower, id, text)),
            None => drop(first.insert(text, id)),
        }
    }
    if let Some((lower, id, text)) = twins.first() {
        let (count, text): (usize, String) = (twins.len(), text.chars().take(SHOWN).collect());
        tracing::warn!(
            count,
            "tokens {lower} and {id} are both {text:?}: texts are encoded to the lowest id of such tokens"
        );
    }
}
