//! The vocabulary under GGUF's keys.

use std::collections::HashMap;

use super::languages::LANGUAGES;
use super::merges;
use crate::metadata::Entries;
use crate::value::array;
use crate::{Value, ValueType};

/// The token that ends a text.
pub(crate) const END: &str = "<|endoftext|>";
/// The token that begins a transcript.
pub(crate) const START: &str = "<|startoftranscript|>";
/// The token of a window without speech.
pub(crate) const NO_SPEECH: &str = "<|nospeech|>";
/// The token of a transcript without timestamps, the last one before those.
pub(crate) const NO_TIMESTAMPS: &str = "<|notimestamps|>";
/// Timestamps: one each 20 ms, from 0 to 30 s.
pub(crate) const TIMESTAMPS: usize = 1501;

/// Tokens between the languages and the timestamps.
const AFTER_LANGUAGES: [&str; 6] = [
    "<|translate|>",
    "<|transcribe|>",
    "<|startoflm|>",
    "<|startofprev|>",
    NO_SPEECH,
    NO_TIMESTAMPS,
];

/// Tokens without which no speech is decoded.
const REQUIRED: [&str; 6] =
    [END, START, "<|transcribe|>", "<|startofprev|>", NO_SPEECH, NO_TIMESTAMPS];

/// Values of `tokenizer.ggml.token_type`.
mod token_type {
    pub(super) const NORMAL: i32 = 1;
    pub(super) const CONTROL: i32 = 3;
    pub(super) const USER_DEFINED: i32 = 4;
    pub(super) const UNUSED: i32 = 5;
}

/// The text of a timestamp, by its number from 0 on.
pub(crate) fn timestamp(number: usize) -> String {
    format!("<|{}.{:02}|>", number / 50, number % 50 * 2)
}

/// The special tokens of OpenAI's models with so many tokens, and the id of the first one; `None`
/// for other vocabularies.
pub(crate) fn specials(vocab: usize) -> Option<(usize, Vec<String>)> {
    let (first, languages) = match vocab {
        51_864 => (50_256, 99),
        51_865 => (50_257, 99),
        51_866 => (50_257, 100),
        _ => return None,
    };
    let mut texts = vec![END.to_owned(), START.to_owned()];
    texts.extend(LANGUAGES[..languages].iter().map(|code| format!("<|{code}|>")));
    texts.extend(AFTER_LANGUAGES.map(str::to_owned));
    texts.extend((0..TIMESTAMPS).map(timestamp));
    Some((first, texts))
}

/// Tokens by id, with their types and merges.
#[derive(Debug)]
pub(crate) struct Tokens {
    texts: Vec<String>,
    types: Vec<i32>,
    merges: Vec<String>,
}

impl Tokens {
    /// `rows` ids without a token: unused ones named `[PAD<id>]`.
    pub(crate) fn new(rows: usize) -> Self {
        let texts = (0..rows).map(|id| format!("[PAD{id}]")).collect();
        Self { texts, types: vec![token_type::UNUSED; rows], merges: Vec::new() }
    }

    /// Whether an id has no token.
    pub(crate) fn is_free(&self, id: usize) -> bool {
        self.types.get(id) == Some(&token_type::UNUSED)
    }

    /// The id of a token.
    pub(crate) fn id(&self, text: &str) -> Option<usize> {
        self.texts.iter().position(|own| own == text)
    }

    fn put(&mut self, id: usize, text: String, kind: i32) -> Option<()> {
        *self.texts.get_mut(id)? = text;
        *self.types.get_mut(id)? = kind;
        Some(())
    }

    /// Sets a token of text, in the alphabet of byte-level vocabularies; `None` for an id beyond
    /// the rows. The empty token of the multilingual vocabulary never results from a text.
    pub(crate) fn put_text(&mut self, id: usize, text: String) -> Option<()> {
        let kind = if text.is_empty() { token_type::UNUSED } else { token_type::NORMAL };
        self.put(id, text, kind)
    }

    /// Sets an added token: of control if it is framed as all of OpenAI's are.
    pub(crate) fn put_added(&mut self, id: usize, text: String) -> Option<()> {
        let framed = text.starts_with("<|") && text.ends_with("|>");
        let kind = if framed { token_type::CONTROL } else { token_type::USER_DEFINED };
        self.put(id, text, kind)
    }

    /// Sets the special tokens where an id has no token.
    pub(crate) fn put_specials(&mut self, first: usize, texts: Vec<String>) {
        for (id, text) in (first..).zip(texts) {
            if self.is_free(id) {
                self.put(id, text, token_type::CONTROL);
            }
        }
    }

    /// Sets tokens of text in the order of ids, which are the ranks of their merges.
    pub(crate) fn put_ranked(&mut self, tokens: &[&[u8]]) {
        for (id, token) in tokens.iter().enumerate() {
            self.put_text(id, in_alphabet(token));
        }
        let merges = merges::of_ranks(tokens).into_iter();
        let merge = |(left, right)| format!("{} {}", in_alphabet(left), in_alphabet(right));
        self.merges = merges.map(merge).collect();
    }

    /// Sets the merges, in the order of ranks.
    pub(crate) fn put_merges(&mut self, merges: Vec<String>) {
        self.merges = merges;
    }

    /// The first rule of Whisper's vocabularies that the tokens violate: the required tokens are
    /// there, and after the last one come the timestamps.
    pub(crate) fn fault(&self) -> Option<String> {
        let mut seen = HashMap::new();
        for (id, text) in self.texts.iter().enumerate() {
            if let Some(first) = seen.insert(text.as_str(), id) {
                return Some(format!("token {text:?} twice, with the ids {first} and {id}"));
            }
        }
        if let Some(missing) = REQUIRED.iter().find(|text| !seen.contains_key(**text)) {
            return Some(format!("no token {missing:?}"));
        }
        let first = seen.get(NO_TIMESTAMPS).map_or(0, |id| id + 1);
        let stamps = (0..TIMESTAMPS).map(timestamp).zip(first..);
        for (text, id) in stamps {
            match self.texts.get(id) {
                Some(found) if *found == text => {}
                Some(found) => {
                    return Some(format!("token {found:?} with the id {id} of {text:?}"));
                }
                None => return Some(format!("{} ids, without that of {text:?}", self.texts.len())),
            }
        }
        None
    }

    /// Sets the keys of the vocabulary.
    pub(crate) fn set(self, out: &mut Entries) {
        let end = self.id(END).map(|id| id as u32);
        let strings = |texts: Vec<String>| array(ValueType::String, texts);
        out.insert("tokenizer.ggml.model", "gpt2".into());
        out.insert("tokenizer.ggml.pre", "gpt-2".into());
        out.insert("tokenizer.ggml.tokens", strings(self.texts));
        out.insert("tokenizer.ggml.token_type", array(ValueType::I32, self.types));
        out.insert("tokenizer.ggml.merges", strings(self.merges));
        if let Some(end) = end {
            out.insert("tokenizer.ggml.eos_token_id", end.into());
        }
        for key in ["tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token"] {
            out.insert(key, Value::Bool(false));
        }
    }
}

/// Characters of the bytes in byte-level vocabularies (GPT-2's): bytes that print as Latin-1
/// characters stand for themselves, the others for the characters from U+0100 on.
const ALPHABET: [char; 256] = alphabet();

const fn alphabet() -> [char; 256] {
    let mut table = ['\0'; 256];
    let (mut byte, mut other) = (0, 0x100);
    while byte < table.len() {
        let code = byte as u32;
        let prints = matches!(code, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
        if let Some(character) = char::from_u32(if prints { code } else { other }) {
            table[byte] = character;
        }
        other += !prints as u32;
        byte += 1;
    }
    table
}

fn in_alphabet(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| ALPHABET[usize::from(*byte)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ids are those of OpenAI's `Tokenizer` (whisper 20250625).
    #[test]
    fn ids_of_special_tokens() {
        for (vocab, expected) in [
            (51_864, [50_256, 50_257, 50_258, 50_357, 50_361, 50_362, 50_363, 51_863]),
            (51_865, [50_257, 50_258, 50_259, 50_358, 50_362, 50_363, 50_364, 51_864]),
            (51_866, [50_257, 50_258, 50_259, 50_359, 50_363, 50_364, 50_365, 51_865]),
        ] {
            let (first, texts) = specials(vocab).unwrap();
            let id = |text: &str| first + texts.iter().position(|own| own == text).unwrap();
            let wanted = [
                END,
                START,
                "<|en|>",
                "<|translate|>",
                NO_SPEECH,
                NO_TIMESTAMPS,
                "<|0.00|>",
                "<|30.00|>",
            ];
            assert_eq!(wanted.map(id), expected, "{vocab}");
            assert_eq!(first + texts.len(), vocab);
            assert_eq!(texts.iter().any(|text| text == "<|yue|>"), vocab == 51_866);
        }
        assert!(specials(51_867).is_none());
    }

    #[test]
    fn texts_of_timestamps() {
        let texts = [0, 1, 49, 50, 51, 1499, 1500].map(timestamp);
        let expected = ["0.00", "0.02", "0.98", "1.00", "1.02", "29.98", "30.00"];
        assert_eq!(texts, expected.map(|text| format!("<|{text}|>")));
    }

    /// The corners of `bytes_to_unicode` in OpenAI's GPT-2.
    #[test]
    fn the_alphabet_of_bytes() {
        let text = in_alphabet(&[0, b' ', b'!', b'~', 0x7F, 0xA0, 0xA1, 0xAD, 0xAE, 0xFF]);
        assert_eq!(text, "ĀĠ!~ġł¡Ń®ÿ");
    }
}
