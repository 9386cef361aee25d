//! What comes back of a request: tokens one by one, and how it went.

use std::{
    sync::{Arc, mpsc::Receiver},
    time::{Duration, Instant},
};

use crate::{Error, model::Worker};

/// One token of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its id.
    pub id: u32,
    /// The text that is certain since it came: whole characters, and nothing that may yet turn out
    /// to begin a stop string. It can be empty, and it can hold the end of earlier tokens.
    pub text: String,
}

/// Why a text ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended it.
    End,
    /// A stop string came.
    Stop,
    /// The number of tokens asked for, or the context, was reached.
    Length,
}

/// How a request went, so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens that were made, the one that ended the text included.
    pub generated_tokens: usize,
    /// The seed with which the same request gives the same text again.
    pub seed: u64,
    /// From the request to its first token, waiting for other requests included.
    pub time_to_first_token: Option<Duration>,
    /// Time in which the prompt was run.
    pub prefill: Duration,
    /// From the first token to the last so far.
    pub decode: Duration,
}

impl Stats {
    /// Prompt tokens run a second; `None` before the first token.
    pub fn prefill_tokens_per_second(&self) -> Option<f64> {
        let seconds = self.prefill.as_secs_f64();
        (seconds > 0.0).then(|| self.prompt_tokens as f64 / seconds)
    }

    /// Tokens a second after the first; `None` before the second.
    pub fn decode_tokens_per_second(&self) -> Option<f64> {
        let seconds = self.decode.as_secs_f64();
        let after_first = self.generated_tokens.checked_sub(1)?;
        (after_first > 0 && seconds > 0.0).then(|| after_first as f64 / seconds)
    }
}

/// What the scheduler tells a stream.
pub(crate) enum Event {
    Token {
        token: Token,
        at: Instant,
    },
    /// The prompt has been run, in this time.
    Prefilled(Duration),
    Finished(FinishReason),
    Failed(Error),
}

/// The tokens of one request, as they are made.
///
/// It ends after the last token; then [`finish_reason`](Self::finish_reason) says why. Dropping it
/// cancels the request.
#[derive(Debug)]
pub struct TokenStream {
    events: Receiver<Event>,
    begun: Instant,
    first: Option<Instant>,
    last: Option<Instant>,
    reason: Option<FinishReason>,
    stats: Stats,
    ended: bool,
    // after the receiver, without which the request is cancelled
    _worker: Arc<Worker>,
}

impl TokenStream {
    pub(crate) fn new(
        events: Receiver<Event>,
        prompt_tokens: usize,
        seed: u64,
        worker: Arc<Worker>,
    ) -> Self {
        Self {
            _worker: worker,
            events,
            begun: Instant::now(),
            first: None,
            last: None,
            reason: None,
            stats: Stats {
                prompt_tokens,
                generated_tokens: 0,
                seed,
                time_to_first_token: None,
                prefill: Duration::ZERO,
                decode: Duration::ZERO,
            },
            ended: false,
        }
    }

    /// A stream that ends before its first token, for a request of none.
    pub(crate) fn empty(mut self) -> Self {
        self.reason = Some(FinishReason::Length);
        self.ended = true;
        self
    }

    /// Why the text ended; `None` while it has not.
    pub fn finish_reason(&self) -> Option<FinishReason> {
        self.reason
    }

    /// How it went, up to the token that was taken last.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Takes all tokens that are left, and returns their text.
    pub fn text(&mut self) -> Result<String, Error> {
        let mut text = String::new();
        for token in self {
            text.push_str(&token?.text);
        }
        Ok(text)
    }

    fn take(&mut self, event: Event) -> Option<Result<Token, Error>> {
        match event {
            Event::Prefilled(time) => {
                self.stats.prefill = time;
                None
            }
            Event::Token { token, at } => {
                let first = *self.first.get_or_insert(at);
                self.last = Some(at);
                self.stats.generated_tokens += 1;
                self.stats.time_to_first_token = Some(first.duration_since(self.begun));
                self.stats.decode = at.duration_since(first);
                Some(Ok(token))
            }
            Event::Finished(reason) => {
                self.reason = Some(reason);
                self.ended = true;
                None
            }
            Event::Failed(error) => {
                self.ended = true;
                Some(Err(error))
            }
        }
    }
}

impl Iterator for TokenStream {
    type Item = Result<Token, Error>;

    /// Waits for the next token.
    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            let item = match self.events.recv() {
                Ok(event) => self.take(event),
                Err(_) => {
                    self.ended = true;
                    Some(Err(Error::Stopped))
                }
            };
            if item.is_some() {
                return item;
            }
        }
        None
    }
}
