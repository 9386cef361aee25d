//! Options of one window.

use crate::filters::Repetition;
use crate::language::Language;
use crate::vocabulary::Vocabulary;

/// The kind of text that is made from speech.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Task {
    /// Text in the language of the speech.
    #[default]
    Transcribe,
    /// English text.
    Translate,
}

/// Tokens that never occur. Where any are, the special tokens that only prompts have never occur
/// either.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suppress {
    /// Annotations and speaker tags ([`Vocabulary::non_speech`]).
    pub non_speech: bool,
    /// Further tokens.
    pub tokens: Vec<u32>,
}

/// Options of the decoding of one window, as OpenAI's `DecodingOptions`.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodeOptions {
    /// The kind of text.
    pub task: Task,
    /// The language; `None` detects it.
    pub language: Option<Language>,
    /// 0 takes the likeliest tokens; at most [`TEMPERATURE_MAX`](Self::TEMPERATURE_MAX).
    pub temperature: f64,
    /// Greatest number of sampled tokens; `None` is half of the context.
    pub sample_len: Option<usize>,
    /// Independent samples, the likeliest of which is the result. Needs a temperature above 0.
    pub best_of: Option<usize>,
    /// Hypotheses of a beam search. Excludes `best_of`.
    pub beam_size: Option<usize>,
    /// The search ends after `beam_size · patience` finished hypotheses (arXiv 2204.05424); `None`
    /// is 1. Needs `beam_size`.
    pub patience: Option<f64>,
    /// The exponent of the length by which hypotheses are ranked, 0 to 1 (arXiv 1609.08144); `None`
    /// ranks by the mean log-probability.
    pub length_penalty: Option<f64>,
    /// Tokens that the text begins with. They are not part of the result.
    pub prefix: Vec<u32>,
    /// Tokens of names and rare words, which precede the prompt in every window. The last ones
    /// count, as many as fit in a quarter of the context.
    pub hot_words: Vec<u32>,
    /// Tokens that never occur.
    pub suppress: Suppress,
    /// Bans a space and the end as the first token.
    pub suppress_blank: bool,
    /// Text without timestamps.
    pub without_timestamps: bool,
    /// The greatest first timestamp in seconds; `None` or 0 for any.
    pub max_initial_timestamp: Option<f64>,
    /// Limits of repetition.
    pub repetition: Repetition,
    /// The seed of draws at temperatures above 0. The draws differ from those of PyTorch, so a
    /// sample differs from OpenAI's; its distribution is the same.
    pub seed: u64,
}

impl Default for DecodeOptions {
    /// OpenAI's defaults.
    fn default() -> Self {
        Self {
            task: Task::Transcribe,
            language: None,
            temperature: 0.0,
            sample_len: None,
            best_of: None,
            beam_size: None,
            patience: None,
            length_penalty: None,
            prefix: Vec::new(),
            hot_words: Vec::new(),
            suppress: Suppress { non_speech: true, tokens: Vec::new() },
            suppress_blank: true,
            without_timestamps: false,
            max_initial_timestamp: Some(1.0),
            repetition: Repetition::NONE,
            seed: 0,
        }
    }
}

impl DecodeOptions {
    /// The greatest temperature.
    pub const TEMPERATURE_MAX: f64 = 5.0;
    /// The greatest number of samples or beams of a window.
    pub const GROUP_MAX: usize = 64;

    /// Hypotheses of a window.
    pub(crate) fn group(&self) -> usize {
        self.beam_size.or(self.best_of).unwrap_or(1)
    }

    /// Finished hypotheses that end a beam search.
    pub(crate) fn candidates(&self) -> usize {
        // the cast saturates
        (self.group() as f64 * self.patience.unwrap_or(1.0)).round_ties_even() as usize
    }

    /// Checks the ranges, and options that exclude each other.
    ///
    /// # Errors
    ///
    /// A sentence about the option.
    pub fn check(&self) -> Result<(), String> {
        let group = 1..=Self::GROUP_MAX;
        for (name, size) in [("beam_size", self.beam_size), ("best_of", self.best_of)] {
            if size.is_some_and(|size| !group.contains(&size)) {
                return Err(format!(
                    "{name} is {}; it goes from 1 to {}",
                    size.unwrap_or(0),
                    group.end()
                ));
            }
        }
        if !(0.0..=Self::TEMPERATURE_MAX).contains(&self.temperature) {
            let (found, most) = (self.temperature, Self::TEMPERATURE_MAX);
            return Err(format!("temperature is {found}; it goes from 0 to {most}"));
        }
        if self.beam_size.is_some() && self.best_of.is_some() {
            return Err("beam_size and best_of exclude each other: give one of them".to_owned());
        }
        if self.best_of.is_some() && self.temperature == 0.0 {
            return Err("best_of needs a temperature above 0".to_owned());
        }
        if self.patience.is_some() && self.beam_size.is_none() {
            return Err("patience needs beam_size".to_owned());
        }
        if !(1..=Self::GROUP_MAX * Self::GROUP_MAX).contains(&self.candidates()) {
            let patience = self.patience.unwrap_or(1.0);
            return Err(format!("patience is {patience}; beam_size · patience must be 1 to 4096"));
        }
        if self.length_penalty.is_some_and(|alpha| !(0.0..=1.0).contains(&alpha)) {
            let found = self.length_penalty.unwrap_or(0.0);
            return Err(format!("length_penalty is {found}; it goes from 0 to 1"));
        }
        if !(self.repetition.penalty > 0.0 && self.repetition.penalty.is_finite()) {
            let found = self.repetition.penalty;
            return Err(format!("the repetition penalty is {found}; it must be above 0"));
        }
        if self.max_initial_timestamp.is_some_and(|seconds| !(0.0..=30.0).contains(&seconds)) {
            let found = self.max_initial_timestamp.unwrap_or(0.0);
            return Err(format!("max_initial_timestamp is {found}; it goes from 0 to 30 seconds"));
        }
        Ok(())
    }

    /// The suppressed tokens, ascending.
    pub(crate) fn suppressed(&self, vocabulary: &Vocabulary) -> Vec<u32> {
        if !self.suppress.non_speech && self.suppress.tokens.is_empty() {
            return Vec::new();
        }
        let non_speech = if self.suppress.non_speech { vocabulary.non_speech() } else { &[] };
        let prompts = [
            vocabulary.transcribe,
            vocabulary.translate,
            vocabulary.sot,
            vocabulary.start_of_previous,
            vocabulary.start_of_lm,
            vocabulary.no_speech,
        ];
        let mut all: Vec<u32> =
            non_speech.iter().chain(&self.suppress.tokens).chain(&prompts).copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}
