//! Words of tokens.

use crate::language::Language;
use crate::vocabulary::Vocabulary;

/// ASCII punctuation in the order of Python's `string.punctuation`. A word counts as punctuation if
/// it is a part of this text.
const PUNCTUATION: &str = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
const REPLACEMENT: char = '\u{fffd}';

/// A word: its text and its tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) text: String,
    pub(super) tokens: Vec<u32>,
}

/// Splits tokens into words: at spaces, or into characters for languages without them.
pub(super) fn split(vocabulary: &Vocabulary, language: Language, tokens: &[u32]) -> Vec<Piece> {
    let characters = characters(vocabulary, tokens);
    if vocabulary.is_multilingual() && !language.has_spaces() {
        return characters;
    }
    let mut words: Vec<Piece> = Vec::new();
    for piece in characters {
        let special = piece.tokens.first().is_some_and(|&token| token >= vocabulary.eot);
        let punctuation = PUNCTUATION.contains(crate::text::strip(&piece.text));
        match words.last_mut() {
            Some(word) if !special && !punctuation && !piece.text.starts_with(' ') => {
                word.text.push_str(&piece.text);
                word.tokens.extend(piece.tokens);
            }
            _ => words.push(piece),
        }
    }
    words
}

/// Splits tokens wherever their bytes so far are whole characters.
fn characters(vocabulary: &Vocabulary, tokens: &[u32]) -> Vec<Piece> {
    let full: Vec<char> = vocabulary.decode_all(tokens).chars().collect();
    let mut pieces = Vec::new();
    let mut current: Vec<u32> = Vec::new();
    let mut offset = 0;
    for &token in tokens {
        current.push(token);
        let text = vocabulary.decode_all(&current);
        // a replacement that the whole text has too stands for bytes that are no character
        let whole = text
            .chars()
            .position(|c| c == REPLACEMENT)
            .is_none_or(|at| full.get(offset + at) == Some(&REPLACEMENT));
        if whole {
            offset += text.chars().count();
            pieces.push(Piece { text, tokens: std::mem::take(&mut current) });
        }
    }
    pieces
}
