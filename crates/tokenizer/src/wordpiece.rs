//! WordPiece, BERT's model.
//!
//! Text is normalized and cut into words and marks of punctuation as google-research/bert,
//! `tokenization.py`, does it; each word is then the longest piece that begins it, the longest
//! piece that begins the rest, and so on. GGUF files write a piece that begins a word with a
//! space mark before it and a piece that continues one bare.

use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

use crate::Error;
use crate::lexicon::Lexicon;
use crate::trie::Trie;
use crate::vocabulary::{UNKNOWN, Vocabulary};

/// Words of more characters are unknown (`max_input_chars_per_word` in Hugging Face's
/// `BertTokenizer`).
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
            needed: "a WordPiece vocabulary gives it to words without pieces",
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
        // A word, after the space that marks its beginning.
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

    /// Calls `each` with every character that is left, and with a space for white space.
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
        // The space counts as a character of the piece that it begins.
        let mut known = word.chars().count() <= MAX_WORD_CHARS + 1;
        let mut at = 0;
        while known && at < word.len() {
            let piece = self.pieces.prefixes(&word.as_bytes()[at..]).last();
            // A piece that is the space alone would begin a word without any of it.
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

// Most text is ASCII, for which the categories need not be looked up.

/// Whether BERT drops the character. A form feed, say, is dropped although it is white space.
fn is_control(c: char) -> bool {
    use GeneralCategory::{Control, Format, PrivateUse};
    if c.is_ascii() {
        return c.is_ascii_control() && !matches!(c, '\t' | '\n' | '\r');
    }
    matches!(c.general_category(), Control | Format | PrivateUse)
}

/// Whether the character is an accent once letters are decomposed.
fn is_accent(c: char) -> bool {
    !c.is_ascii() && c.general_category() == GeneralCategory::NonspacingMark
}

/// Whether BERT makes the character a word: Unicode's punctuation, and all of ASCII's marks.
fn is_punctuation(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_punctuation();
    }
    c.general_category_group() == GeneralCategoryGroup::Punctuation
}

/// Whether BERT makes the character a word: the Han ideographs that it lists.
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
