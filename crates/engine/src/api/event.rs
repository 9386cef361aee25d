//! The answer to a request: its tokens one by one, its end, and its times.

use std::time::Duration;

use crate::{Error, api::SpeculationStats};

/// One token of a text.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Token {
    /// Its id.
    pub id: u32,
    /// The text that is certain since it was drawn: whole characters, and nothing that may yet turn
    /// out to begin a stop string. It can be empty, and it can hold the end of earlier tokens.
    /// Control tokens have no text: that of one, if any, is the end of the text before it.
    pub text: String,
    /// Its natural log-probability, if the request asks for those.
    pub logprob: Option<f32>,
    /// The likeliest tokens with their natural log-probabilities, in descending order.
    pub top: Vec<TokenLogprob>,
}

impl Token {
    pub(crate) fn new(id: u32, text: String) -> Self {
        Self { id, text, logprob: None, top: Vec::new() }
    }
}

/// A token that could have been drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct TokenLogprob {
    /// Its id.
    pub id: u32,
    /// Its natural log-probability.
    pub logprob: f32,
}

impl TokenLogprob {
    /// Those of pairs of an id and a log-probability.
    pub(crate) fn list(pairs: Vec<(u32, f32)>) -> Vec<Self> {
        pairs.into_iter().map(|(id, logprob)| Self { id, logprob }).collect()
    }
}

/// A token of a prompt with its log-probability, if the request
/// [asks](crate::GenerateOptions::prompt_logprobs) for those.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PromptToken {
    /// Its id.
    pub id: u32,
    /// Its natural log-probability after the tokens before it; `None` for the first token.
    pub logprob: Option<f32>,
    /// The likeliest tokens in its place with their natural log-probabilities, in descending order.
    pub top: Vec<TokenLogprob>,
}

impl PromptToken {
    pub(crate) fn new(id: u32, logprob: Option<f32>, top: Vec<TokenLogprob>) -> Self {
        Self { id, logprob, top }
    }
}

/// Why a text ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FinishReason {
    /// The model ended it.
    End,
    /// A stop string came.
    Stop,
    /// The request's number of tokens, or the context, was reached.
    Length,
    /// The request was cancelled.
    Cancelled,
}

/// The sizes and times of a request so far.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens of the prompt whose keys and values were cached, so that they were not run.
    pub cached_tokens: usize,
    /// Tokens of the prompt that were run so far, or were cached.
    pub prefilled_tokens: usize,
    /// Tokens that were generated, the one that ended the text included.
    pub generated_tokens: usize,
    /// Generated tokens to which the constraint left no alternative: they were not drawn.
    pub forced_tokens: usize,
    /// The seed with which the same request gives the same text again.
    pub seed: u64,
    /// From the submission to the start of the prompt; `None` before.
    pub queued: Option<Duration>,
    /// From the submission to the first token; `None` before.
    pub time_to_first_token: Option<Duration>,
    /// Time of the passes of the vision tower over the prompt's pictures.
    pub pictures: Duration,
    /// Time of the passes that ran the prompt.
    pub prefill: Duration,
    /// From the first token to the last so far.
    pub decode: Duration,
    /// How often the request lost its pages to another one, and was resumed.
    pub preemptions: usize,
    /// Drafted tokens, and the times of the passes that verified them. Several requests of one pass
    /// each count the whole time.
    pub speculation: SpeculationStats,
}

impl Stats {
    pub(crate) fn new(prompt_tokens: usize, seed: u64) -> Self {
        Self {
            prompt_tokens,
            cached_tokens: 0,
            prefilled_tokens: 0,
            generated_tokens: 0,
            forced_tokens: 0,
            seed,
            queued: None,
            time_to_first_token: None,
            pictures: Duration::ZERO,
            prefill: Duration::ZERO,
            decode: Duration::ZERO,
            preemptions: 0,
            speculation: SpeculationStats::default(),
        }
    }

    /// Prompt tokens run per second, without those that were cached; `None` before the first token.
    pub fn prefill_tokens_per_second(&self) -> Option<f64> {
        let seconds = self.prefill.as_secs_f64();
        let run = self.prompt_tokens.saturating_sub(self.cached_tokens);
        (seconds > 0.0).then(|| run as f64 / seconds)
    }

    /// Tokens per second after the first; `None` before the second.
    pub fn decode_tokens_per_second(&self) -> Option<f64> {
        let seconds = self.decode.as_secs_f64();
        let after_first = self.generated_tokens.checked_sub(1)?;
        (after_first > 0 && seconds > 0.0).then(|| after_first as f64 / seconds)
    }
}

/// One step of a request, as a callback receives it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// The tokens of the prompt with their log-probabilities, if the request asks for those. It
    /// comes once, before the first token.
    Prompt(Vec<PromptToken>),
    /// The next token.
    Token(Token),
    /// The text ended. The last event.
    Finished {
        /// Why.
        reason: FinishReason,
        /// The sizes and times of the whole request.
        stats: Stats,
    },
    /// The request failed. The last event.
    Failed(Error),
}
