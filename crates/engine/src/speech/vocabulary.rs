//! The vocabulary of a speech model, as Whisper's decoding rules read it.

use std::sync::Arc;

use pelton_speech::{Language, Vocabulary};
use pelton_tokenizer::{Special, Tokenizer};

use super::model::SpeechModel;
use crate::Error;

/// A tokenizer as the decoding rules see it.
struct Texts(Arc<Tokenizer>);

impl pelton_speech::Tokenizer for Texts {
    fn size(&self) -> usize {
        self.0.vocab_size()
    }

    fn text(&self, token: u32) -> &[u8] {
        self.0.token_bytes(token).unwrap_or_default()
    }

    fn encode(&self, text: &str) -> Vec<u32> {
        // only a text beyond the tokenizer's limits fails, and prompts are cut to some hundred
        // tokens
        self.0.encode(text, Special::Plain).unwrap_or_default()
    }
}

impl SpeechModel {
    /// The vocabulary with its special tokens: languages, tasks, times.
    ///
    /// # Errors
    ///
    /// [`Error::NoVocabulary`] if the file has none, [`Error::Transcription`] if it is none of
    /// Whisper.
    pub fn vocabulary(&self) -> Result<Vocabulary, Error> {
        if let Some(vocabulary) = self.vocabulary.get() {
            return Ok(vocabulary.clone());
        }
        let tokenizer = Arc::clone(self.shared_tokenizer()?);
        let found = Vocabulary::new(Arc::new(Texts(tokenizer)))
            .map_err(|error| Error::Transcription(format!("{}: {error}", self.name())))?;
        Ok(self.vocabulary.get_or_init(|| found).clone())
    }

    /// Refuses a language that the model does not know.
    pub(super) fn check_language(
        &self,
        vocabulary: &Vocabulary,
        language: Option<Language>,
    ) -> Result<(), Error> {
        let Some(language) = language else { return Ok(()) };
        let expected = match vocabulary.languages() {
            [] if language == Language::ENGLISH => return Ok(()),
            _ if vocabulary.language_token(language).is_some() => return Ok(()),
            [] | [_] => "english, as the model knows English only".to_owned(),
            known => format!("one of the {} that the model knows", known.len()),
        };
        Err(Error::RequestOption {
            option: "language",
            found: language.name().to_owned(),
            expected,
        })
    }
}
