//! The tokens of one request, measured, and cancelled with the client.
//!
//! A task is woken for a token at most every 5 ms and takes all that have come since. On a CPU,
//! each wake-up and each write to a socket stops a computing thread.

use std::{
    future::poll_fn,
    sync::{Arc, atomic::Ordering},
    task::{Context as TaskContext, Poll, Waker},
    time::{Duration, Instant},
};

use pelton::{FinishReason, GenerateOptions, PromptToken, Stats, Token, Tokenizer};

use crate::{
    error::ApiError,
    metrics::{LoraUse, ModelMetrics, Outcome},
    models::{Encoded, Lease, Run},
};

/// The time within which tokens are taken together, after a task was woken for a token. A thread
/// that wakes up and writes to a socket takes 0.1 ms from the threads that compute, which is much
/// where a token takes 2 ms.
const TOGETHER: Duration = Duration::from_millis(5);

/// The state that all texts of one HTTP request share.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) lease: Arc<Lease>,
    pub(crate) metrics: Arc<ModelMetrics>,
    /// The namespace of cached prefixes.
    pub(crate) salt: u64,
    /// The key that sent it.
    pub(crate) client: pelton::Client,
    pub(crate) deadline: Option<std::time::Duration>,
    pub(crate) log_prompts: bool,
    /// Counts tokens for the limits and the log line of the request.
    pub(crate) usage: Arc<crate::usage::Usage>,
}

/// The end of a text.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) reason: FinishReason,
    pub(crate) stats: Stats,
    /// The stop string before which the text ended.
    pub(crate) stop: Option<String>,
}

/// The tokens of one request. Dropping it cancels the request.
pub(crate) struct TokenRun {
    run: Run,
    context: Context,
    stops: Vec<String>,
    /// All ids, where the stop string is looked for; empty without several stop strings.
    ids: Vec<u32>,
    begun: Instant,
    /// When the task may be woken again.
    rest: Option<Instant>,
    times: Times,
    loras: LoraUse,
    counted: bool,
    /// Whether the text was ended before its model ended it.
    stopped: bool,
    /// Whether a tool call was sent, which changes the outcome.
    pub(crate) called: bool,
}

impl TokenRun {
    /// Submits a request.
    pub(crate) fn start(
        context: &Context,
        prompt: &Encoded,
        options: &GenerateOptions,
    ) -> Result<Self, ApiError> {
        let stops = options.stop.clone();
        let loras = options.loras.iter().flatten().map(|lora| lora.name.clone()).collect();
        let loras = LoraUse::new(&context.metrics.loras, loras);
        let run = context.lease.replicas()?.stream(prompt, options)?;
        context.usage.add_prompt(run.stream().stats().prompt_tokens);
        Ok(Self {
            run,
            context: context.clone(),
            stops,
            ids: Vec::new(),
            begun: Instant::now(),
            rest: None,
            times: Times::default(),
            loras,
            counted: false,
            stopped: false,
            called: false,
        })
    }

    /// The next token; `None` after the last.
    pub(crate) async fn next(&mut self) -> Result<Option<Token>, ApiError> {
        match self.item().await {
            None => Ok(None),
            Some(Ok(token)) => {
                self.loras.run();
                let metrics = &self.context.metrics;
                metrics.generation_tokens.fetch_add(1, Ordering::Relaxed);
                self.context.usage.add_generated(1);
                match self.times.next(|| Look::from(&self.run.stream().stats())) {
                    Time::First(time) => metrics.first_token.observe(time.as_secs_f64()),
                    Time::Later(time) => metrics.inter_token.observe(time.as_secs_f64()),
                }
                if self.stops.len() > 1 {
                    self.ids.push(token.id);
                }
                Ok(Some(token))
            }
            Some(Err(error)) => {
                self.count(Outcome::Error);
                Err(error.into())
            }
        }
    }

    /// Ends the text here, as if the model had ended it: there is no next token.
    pub(crate) fn stop(&mut self) -> Option<Token> {
        self.run.stream().handle().cancel();
        self.stopped = true;
        None
    }

    /// The next item of the stream. Where tokens are fast, nothing wakes the task within
    /// [`TOGETHER`] after it was woken.
    async fn item(&mut self) -> Option<Result<Token, pelton::Error>> {
        if let Poll::Ready(item) = self.ready() {
            return item;
        }
        // a slow model would only wake the task twice for each token
        let are_fast = self.times.mean > Duration::ZERO && self.times.mean < TOGETHER;
        if let Some(rest) = self.rest.filter(|rest| are_fast && *rest > Instant::now()) {
            tokio::time::sleep_until(rest.into()).await;
        }
        let item = poll_fn(|context| self.run.poll_next(context)).await;
        self.rest = Some(Instant::now() + TOGETHER);
        item
    }

    /// The next item if it is there.
    fn ready(&mut self) -> Poll<Option<Result<Token, pelton::Error>>> {
        self.run.poll_next(&mut TaskContext::from_waker(Waker::noop()))
    }

    /// The tokens of the prompt with their log-probabilities, with the first token or the end.
    pub(crate) fn prompt(&self) -> &[PromptToken] {
        self.run.stream().prompt()
    }

    /// The sizes and times so far.
    pub(crate) fn stats(&self) -> Stats {
        self.run.stream().stats()
    }

    /// Why the text ended, after the last token.
    pub(crate) fn finish_reason(&self) -> FinishReason {
        match self.stopped {
            true => FinishReason::End,
            false => self.run.stream().finish_reason().unwrap_or(FinishReason::Cancelled),
        }
    }

    /// The tokenizer of the model.
    pub(crate) fn tokenizer(&self) -> Result<&Tokenizer, ApiError> {
        Ok(self.context.lease.model()?.tokenizer()?)
    }

    /// The end, after the last token.
    pub(crate) fn end(&mut self) -> End {
        let reason = self.finish_reason();
        self.count(match reason {
            _ if self.called => Outcome::ToolCalls,
            FinishReason::End | FinishReason::Stop => Outcome::Stop,
            FinishReason::Length => Outcome::Length,
            _ => Outcome::Abort,
        });
        let stop = (reason == FinishReason::Stop).then(|| self.stop_string()).flatten();
        End { reason, stats: self.stats(), stop }
    }

    /// The stop string that came: the one that ends first.
    fn stop_string(&self) -> Option<String> {
        if let [only] = self.stops.as_slice() {
            return Some(only.clone());
        }
        let text = self.context.lease.model().ok()?.tokenizer().ok()?.decode(&self.ids, false);
        let end = |stop: &&String| text.find(stop.as_str()).map(|at| (at + stop.len(), at));
        let found = self.stops.iter().filter(|stop| end(stop).is_some());
        found.min_by_key(end).cloned()
    }

    fn count(&mut self, outcome: Outcome) {
        if !self.counted {
            self.counted = true;
            let seconds = self.begun.elapsed().as_secs_f64();
            self.context.metrics.end(outcome, &self.stats(), seconds);
        }
    }
}

impl Drop for TokenRun {
    fn drop(&mut self) {
        self.count(Outcome::Abort);
    }
}

/// The time of a token.
#[derive(Debug, PartialEq)]
enum Time {
    /// The first token's, from the submission on.
    First(Duration),
    /// Another token's, after the one before.
    Later(Duration),
}

/// The generated tokens of a text, and their times.
struct Look {
    tokens: usize,
    /// From the submission to the first token.
    first: Duration,
    /// From the first token to the last.
    decode: Duration,
}

impl From<&Stats> for Look {
    fn from(stats: &Stats) -> Self {
        let first = stats.time_to_first_token.unwrap_or_default();
        Self { tokens: stats.generated_tokens, first, decode: stats.decode }
    }
}

/// The times of tokens by the clock of the model, in whatever groups they are taken.
#[derive(Debug, Default)]
struct Times {
    taken: usize,
    /// Generated tokens at the last look, and the time from the first to the last of them.
    seen: usize,
    decode: Duration,
    /// The mean time of the tokens that came between the last two looks.
    mean: Duration,
}

impl Times {
    /// The time of the next token.
    fn next(&mut self, look: impl FnOnce() -> Look) -> Time {
        self.taken += 1;
        if self.taken > self.seen {
            let Look { tokens, first, decode } = look();
            let new = tokens.saturating_sub(self.seen.max(1)).max(1);
            self.mean = decode.saturating_sub(self.decode) / u32::try_from(new).unwrap_or(u32::MAX);
            (self.seen, self.decode) = (tokens, decode);
            if self.taken == 1 {
                return Time::First(first);
            }
        }
        Time::Later(self.mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_tokens_that_are_taken_in_groups() {
        let ms = Duration::from_millis;
        let look = |tokens, decode| move || Look { tokens, first: ms(30), decode: ms(decode) };
        let mut times = Times::default();
        // two tokens, then three, then one
        assert_eq!(times.next(look(2, 10)), Time::First(ms(30)));
        assert_eq!(times.next(look(2, 10)), Time::Later(ms(10)));
        assert_eq!(times.next(look(5, 22)), Time::Later(ms(4)));
        assert_eq!(times.next(look(6, 29)), Time::Later(ms(4)));
        assert_eq!(times.next(look(6, 29)), Time::Later(ms(4)));
        assert_eq!(times.next(look(6, 29)), Time::Later(ms(7)));
        // one after the other
        let mut times = Times::default();
        assert_eq!(times.next(look(1, 0)), Time::First(ms(30)));
        assert_eq!(times.next(look(2, 5)), Time::Later(ms(5)));
        assert_eq!(times.next(look(3, 8)), Time::Later(ms(3)));
    }
}
