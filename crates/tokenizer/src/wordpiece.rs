//! WordPiece, BERT's model.
//!
//! Text is normalized and split into words and punctuation marks as in google-research/bert,
//! `tokenization.py`. Each word is segmented greedily: the longest piece that is a prefix of the
//! word, then of the remainder, and so on. In GGUF files a piece that begins a word has a leading
//! space mark and a continuation has none.

use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

use crate::Error;
use crate::lexicon::Lexicon;
use crate::trie::Trie;
use crate::vocabulary::{UNKNOWN, Vocabulary};

/// Maximum length of a word in characters; longer words are unknown (`max_input_chars_per_word` in
/// Hugging Face's `BertTokenizer`).
const MAX_WORD_CHARS: usize = 100;

/// A WordPiece vocabulary.
#[derive(Debug)]
pub(crate) struct WordPiece {
    pieces: Trie,
    unknown: u32,
    lowercase: bool,
    strip_accents: bool,
}

impl WordPiece {
    /// # Errors
    /// If the unknown token is missing.
    pub(crate) fn new(vocabulary: &Vocabulary<'_>, lexicon: &Lexicon) -> Result<Self, Error> {
        let unknown = vocabulary.unknown.ok_or(Error::Missing {
            key: UNKNOWN,
            needed: "a WordPiece vocabulary requires it for words without pieces",
        })?;
        Ok(Self {
            pieces: Trie::new(lexicon.normal().map(|id| (lexicon.bytes_of(id), id))),
            unknown,
            lowercase: vocabulary.lowercase,
            strip_accents: vocabulary.strip_accents,
        })
    }

    /// Appends a text's tokens.
    pub(crate) fn encode(&self, text: &str, out: &mut Vec<u32>) {
        // The current word, with the leading space that marks its beginning.
        let mut word = String::from(" ");
        let mut end_word = |word: &mut String| {
            self.encode_word(word, out);
            word.truncate(1);
        };
        self.normalize(text, &mut |c| {
            if c == ' ' {
                end_word(&mut word);
            } else if is_punctuation(c) || is_ideograph(c) {
                end_word(&mut word);
                word.push(c);
                end_word(&mut word);
            } else {
                word.push(c);
            }
        });
        end_word(&mut word);
    }

    /// Calls `each` for every character of the normalized text, with a space for white space.
    fn normalize(&self, text: &str, each: &mut impl FnMut(char)) {
        let kept = text.chars().filter_map(|c| {
            if c == '\u{fffd}' || is_control(c) {
                None
            } else {
                Some(if c.is_whitespace() { ' ' } else { c })
            }
        });
        let mut lower = |c: char| {
            if self.lowercase { c.to_lowercase().for_each(&mut *each) } else { each(c) }
        };
        if self.strip_accents {
            kept.nfd().filter(|&c| !is_accent(c)).for_each(lower);
        } else {
            kept.for_each(&mut lower);
        }
    }

    fn encode_word(&self, word: &str, out: &mut Vec<u32>) {
        let begin = out.len();
        if word.len() == 1 {
            return;
        }
        // The leading space counts as a character of the first piece.
        let mut known = word.chars().count() <= MAX_WORD_CHARS + 1;
        let mut at = 0;
        while known && at < word.len() {
            let piece = self.pieces.prefixes(&word.as_bytes()[at..]).last();
            // A piece of only the space would contain no character of the word.
            match piece.filter(|(length, _)| at > 0 || *length > 1) {
                Some((length, id)) => {
                    out.push(id);
                    at += length;
                }
                None => known = false,
            }
        }
        if !known {
            out.truncate(begin);
            out.push(self.unknown);
        }
    }
}

// Most text is ASCII, which needs no lookup of Unicode categories.

/// Whether BERT removes the character. A form feed, for example, is removed although it is
/// white space.
fn is_control(c: char) -> bool {
    use GeneralCategory::{Control, Format, PrivateUse};
    if c.is_ascii() {
        return c.is_ascii_control() && !matches!(c, '\t' | '\n' | '\r');
    }
    matches!(c.general_category(), Control | Format | PrivateUse)
}

/// Whether the character is a combining accent of a decomposed letter.
fn is_accent(c: char) -> bool {
    !c.is_ascii() && c.general_category() == GeneralCategory::NonspacingMark
}

/// Whether the character is a word by itself in BERT: Unicode punctuation and all ASCII symbols.
fn is_punctuation(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_punctuation();
    }
    c.general_category_group() == GeneralCategoryGroup::Punctuation
}

/// Whether the character is a word by itself in BERT: the Han ideographs that it lists.
fn is_ideograph(c: char) -> bool {
    matches!(c,
        '\u{4e00}'..='\u{9fff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{20000}'..='\u{2a6df}'
        | '\u{2a700}'..='\u{2b73f}'
        | '\u{2b740}'..='\u{2b81f}'
        | '\u{2b820}'..='\u{2ceaf}'
        | '\u{f900}'..='\u{faff}'
        | '\u{2f800}'..='\u{2fa1f}')
}
