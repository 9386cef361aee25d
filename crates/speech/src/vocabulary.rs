//! The special tokens of a Whisper vocabulary, found by their texts.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use crate::language::Language;
use crate::non_speech::non_speech;
use crate::text::strip;

/// Seconds between two timestamps.
pub(crate) const TIMESTAMP_SECONDS: f64 = 0.02;

/// Texts and ids of tokens.
pub trait Tokenizer {
    /// The number of tokens.
    fn size(&self) -> usize;

    /// The bytes of a token: `<|en|>` and the like for special tokens, no bytes beyond the last
    /// token.
    fn text(&self, token: u32) -> &[u8];

    /// The tokens of a text. Special tokens in it are plain text.
    fn encode(&self, text: &str) -> Vec<u32>;
}

/// The vocabulary is not one of a Whisper model.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no token {0:?}: the vocabulary is not one of a Whisper model")]
pub struct VocabularyError(pub String);

/// A Whisper vocabulary: a tokenizer and the ids of its special tokens.
#[derive(Clone)]
pub struct Vocabulary {
    tokenizer: Arc<dyn Tokenizer + Send + Sync>,
    /// `<|endoftext|>`; ids of texts are below.
    pub eot: u32,
    /// `<|startoftranscript|>`.
    pub sot: u32,
    /// `<|translate|>`.
    pub translate: u32,
    /// `<|transcribe|>`.
    pub transcribe: u32,
    /// `<|startoflm|>`.
    pub start_of_lm: u32,
    /// `<|startofprev|>`.
    pub start_of_previous: u32,
    /// `<|nospeech|>`, which early vocabularies call `<|nocaptions|>`.
    pub no_speech: u32,
    /// `<|notimestamps|>`.
    pub no_timestamps: u32,
    /// `<|0.00|>`, the first timestamp.
    pub first_timestamp: u32,
    /// The number of timestamps: 1,501.
    pub timestamps: u32,
    languages: Vec<(Language, u32)>,
    multilingual: bool,
    non_speech: Vec<u32>,
    blank: Vec<u32>,
}

impl Vocabulary {
    /// The number of tokens of OpenAI's English-only vocabulary.
    const ENGLISH_SIZE: u32 = 51_864;

    /// Finds the special tokens of a tokenizer.
    ///
    /// A vocabulary is English-only if it has no languages or is as large as OpenAI's English-only
    /// one.
    ///
    /// # Errors
    ///
    /// A special token is missing.
    pub fn new(tokenizer: Arc<dyn Tokenizer + Send + Sync>) -> Result<Self, VocabularyError> {
        // special tokens follow the texts, so that the last of equal ones counts
        let specials: HashMap<&[u8], u32> = (0..tokenizer.size() as u32)
            .map(|id| (tokenizer.text(id), id))
            .filter(|(text, _)| text.starts_with(b"<|"))
            .collect();
        let find = |text: &str| specials.get(text.as_bytes()).copied();
        let need = |text: &str| find(text).ok_or_else(|| VocabularyError(text.to_owned()));
        let first_timestamp = need("<|0.00|>")?;
        let timestamps = (0..)
            .take_while(|&i| tokenizer.text(first_timestamp + i) == timestamp_text(i).as_bytes())
            .count() as u32;
        let languages: Vec<_> = Language::all()
            .filter_map(|language| Some((language, find(&format!("<|{}|>", language.code()))?)))
            .collect();
        Ok(Self {
            eot: need("<|endoftext|>")?,
            sot: need("<|startoftranscript|>")?,
            translate: need("<|translate|>")?,
            transcribe: need("<|transcribe|>")?,
            start_of_lm: need("<|startoflm|>")?,
            start_of_previous: need("<|startofprev|>")?,
            no_speech: need("<|nospeech|>").or_else(|error| find("<|nocaptions|>").ok_or(error))?,
            no_timestamps: need("<|notimestamps|>")?,
            first_timestamp,
            timestamps,
            multilingual: !languages.is_empty()
                && first_timestamp + timestamps != Self::ENGLISH_SIZE,
            languages,
            non_speech: non_speech(|text| tokenizer.encode(text)),
            blank: tokenizer.encode(" "),
            tokenizer,
        })
    }

    /// The same vocabulary of a model that knows English alone, whose prompts name neither language
    /// nor task.
    #[must_use]
    pub fn english_only(self) -> Self {
        Self { multilingual: false, ..self }
    }

    /// Whether a prompt names a language and a task.
    pub fn is_multilingual(&self) -> bool {
        self.multilingual
    }

    /// The languages with their tokens, in the order of [`Language::all`]; none if it is
    /// English-only.
    pub fn languages(&self) -> &[(Language, u32)] {
        if self.multilingual { &self.languages } else { &[] }
    }

    /// The token of a language, if a prompt can name it.
    pub fn language_token(&self, language: Language) -> Option<u32> {
        self.languages().iter().find(|(known, _)| *known == language).map(|(_, token)| *token)
    }

    /// Tokens of speaker tags and annotations, ascending, as OpenAI's `non_speech_tokens`.
    pub fn non_speech(&self) -> &[u32] {
        &self.non_speech
    }

    /// The tokens of a space, which no text begins with.
    pub(crate) fn blank(&self) -> &[u32] {
        &self.blank
    }

    /// Whether a token is a timestamp.
    pub(crate) fn is_timestamp(&self, token: u32) -> bool {
        token >= self.first_timestamp
    }

    /// The tokens of a text in a prompt: after one space, without white space at its ends.
    pub fn prompt(&self, text: &str) -> Vec<u32> {
        self.tokenizer.encode(&format!(" {}", strip(text)))
    }

    /// The text of tokens without timestamps. Bytes that are not UTF-8 become U+FFFD.
    pub fn decode(&self, tokens: &[u32]) -> String {
        self.decode_all(tokens.iter().filter(|&&token| !self.is_timestamp(token)))
    }

    /// The text of tokens with the texts of timestamps.
    pub(crate) fn decode_all<'a>(&self, tokens: impl IntoIterator<Item = &'a u32>) -> String {
        let bytes: Vec<u8> =
            tokens.into_iter().flat_map(|&token| self.tokenizer.text(token)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vocabulary")
            .field("eot", &self.eot)
            .field("first_timestamp", &self.first_timestamp)
            .field("languages", &self.languages.len())
            .field("multilingual", &self.multilingual)
            .finish_non_exhaustive()
    }
}

/// The text of a timestamp token.
fn timestamp_text(index: u32) -> String {
    format!("<|{}.{:02}|>", index / 50, index % 50 * 2)
}
