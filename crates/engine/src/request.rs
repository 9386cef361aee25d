//! What is asked of a model.

use crate::Sampling;

/// What comes before the text that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// Text. Special tokens that are written in it count as such, and what the model file says
    /// belongs before a text (most often a token for its beginning) is added.
    Text(String),
    /// Tokens, taken as they are.
    Tokens(Vec<u32>),
}

/// A text to be made: the prompt, how long, and how tokens are chosen.
///
/// ```
/// use pelton::{Request, Sampling};
///
/// let request = Request::new("Once upon a time").max_tokens(20).sampling(Sampling::greedy());
/// assert_eq!(request.max_tokens, Some(20));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// What comes before.
    pub prompt: Prompt,
    /// Tokens to be made at most; `None` for as many as the context has room for.
    pub max_tokens: Option<usize>,
    /// How each token is chosen.
    pub sampling: Sampling,
    /// Strings before which the text ends; they are not part of it.
    pub stop: Vec<String>,
    /// Whether to go on when the model ends its text.
    pub ignore_end: bool,
}

impl Request {
    /// A text after `prompt`, with default sampling and no limit but the context.
    pub fn new(prompt: impl Into<String>) -> Self {
        Self::after(Prompt::Text(prompt.into()))
    }

    /// As [`new`](Self::new), after tokens.
    pub fn from_tokens(tokens: impl Into<Vec<u32>>) -> Self {
        Self::after(Prompt::Tokens(tokens.into()))
    }

    fn after(prompt: Prompt) -> Self {
        Self {
            prompt,
            max_tokens: None,
            sampling: Sampling::default(),
            stop: Vec::new(),
            ignore_end: false,
        }
    }

    /// Sets the number of tokens to be made at most.
    pub fn max_tokens(mut self, tokens: usize) -> Self {
        self.max_tokens = Some(tokens);
        self
    }

    /// Sets how tokens are chosen.
    pub fn sampling(mut self, sampling: Sampling) -> Self {
        self.sampling = sampling;
        self
    }

    /// Adds a string before which the text ends.
    pub fn stop(mut self, stop: impl Into<String>) -> Self {
        self.stop.push(stop.into());
        self
    }
}
