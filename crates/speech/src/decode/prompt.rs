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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::vocabulary::Tokenizer;

    /// Special tokens alone, from 10 on.
    struct Specials(Vec<String>);

    impl Tokenizer for Specials {
        fn size(&self) -> usize {
            10 + self.0.len()
        }

        fn text(&self, token: u32) -> &[u8] {
            let special = (token as usize).checked_sub(10).and_then(|i| self.0.get(i));
            special.map_or(&[], |text| text.as_bytes())
        }

        fn encode(&self, _: &str) -> Vec<u32> {
            vec![1]
        }
    }

    fn vocabulary() -> Vocabulary {
        let names = "endoftext startoftranscript en translate transcribe startoflm startofprev \
            nospeech notimestamps 0.00 0.02";
        let specials = names.split(' ').map(|name| format!("<|{name}|>")).collect();
        Vocabulary::new(Arc::new(Specials(specials))).unwrap()
    }

    #[test]
    fn hot_words_precede_the_text_within_half_of_the_context() {
        let vocabulary = vocabulary();
        let of = |hot: usize, previous: usize| {
            let options = DecodeOptions { hot_words: vec![1; hot], ..DecodeOptions::default() };
            let previous = vec![2; previous];
            Prompt::new(&vocabulary, &options, Language::ENGLISH, &previous, 448)
        };
        let start = [11, 12, 14];
        assert_eq!(of(0, 0), Prompt { tokens: start.to_vec(), sot: 0 });
        assert_eq!(of(1, 2).tokens, [16, 1, 2, 2, 11, 12, 14]);
        // one marker and 223 tokens at most; hot words have at most 111 of them
        for (hot, previous, used) in
            [(0, 999, (0, 223)), (999, 999, (111, 112)), (9, 999, (9, 214))]
        {
            let Prompt { tokens, sot } = of(hot, previous);
            let count = |wanted: u32| tokens.iter().filter(|&&token| token == wanted).count();
            assert_eq!((sot, count(1), count(2)), (224, used.0, used.1));
            assert_eq!(tokens[sot..], start);
        }
    }
}
