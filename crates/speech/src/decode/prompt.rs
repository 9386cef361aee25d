//! The tokens before the sampled ones.

use crate::language::Language;
use crate::text::last;
use crate::vocabulary::Vocabulary;

use super::options::{DecodeOptions, Task};

/// The initial tokens of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Prompt {
    /// All initial tokens.
    pub(super) tokens: Vec<u32>,
    /// The index of `<|startoftranscript|>`.
    pub(super) sot: usize,
}

/// The start of a transcript: language and task for multilingual models.
pub(crate) fn start(vocabulary: &Vocabulary, language: Language, task: Task) -> Vec<u32> {
    let mut tokens = vec![vocabulary.sot];
    if vocabulary.is_multilingual() {
        tokens.extend(vocabulary.language_token(language));
        tokens.push(match task {
            Task::Transcribe => vocabulary.transcribe,
            Task::Translate => vocabulary.translate,
        });
    }
    tokens
}

impl Prompt {
    /// The initial tokens for a model of `context` tokens.
    pub(super) fn new(
        vocabulary: &Vocabulary,
        options: &DecodeOptions,
        language: Language,
        previous: &[u32],
        context: usize,
    ) -> Self {
        let half = context / 2;
        let mut start = start(vocabulary, language, options.task);
        if options.without_timestamps {
            start.push(vocabulary.no_timestamps);
        }
        let sample_len = sample_len(options, context);
        start.extend(last(&options.prefix, half as isize - sample_len as isize));

        let room = half.saturating_sub(1);
        let hot_words = match options.hot_words.len().checked_sub(room / 2) {
            Some(over) => &options.hot_words[over..],
            None => &options.hot_words,
        };
        let room = room - hot_words.len();
        let previous = &previous[previous.len().saturating_sub(room)..];
        let mut tokens = Vec::new();
        if !hot_words.is_empty() || !previous.is_empty() {
            tokens.push(vocabulary.start_of_previous);
            tokens.extend(hot_words);
            tokens.extend(previous);
        }
        let sot = tokens.len();
        tokens.extend(start);
        Self { tokens, sot }
    }
}

/// The greatest number of sampled tokens.
pub(super) fn sample_len(options: &DecodeOptions, context: usize) -> usize {
    options.sample_len.filter(|&len| len > 0).unwrap_or(context / 2)
}
