//! The tokens of one request, measured, and cancelled with the client.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use futures_core::Stream;
use pelton::{AsyncTokenStream, FinishReason, Request, Stats, Token};

use crate::{
    error::ApiError,
    metrics::{ModelMetrics, Outcome},
    models::Lease,
};

/// What all texts of one HTTP request share.
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
    stream: AsyncTokenStream,
    context: Context,
    stops: Vec<String>,
    /// All ids, where the stop string is looked for; empty without several stop strings.
    ids: Vec<u32>,
    begun: Instant,
    last: Option<Instant>,
    counted: bool,
    /// Whether a tool call was sent, which changes the outcome.
    pub(crate) called: bool,
}

impl TokenRun {
    /// Submits a request.
    pub(crate) fn start(context: &Context, request: Request) -> Result<Self, ApiError> {
        let stops = request.stop.clone();
        let stream = context.lease.model()?.stream(request)?;
        context.usage.add_prompt(stream.stats().prompt_tokens);
        Ok(Self {
            stream,
            context: context.clone(),
            stops,
            ids: Vec::new(),
            begun: Instant::now(),
            last: None,
            counted: false,
            called: false,
        })
    }

    /// The next token; `None` after the last.
    pub(crate) async fn next(&mut self) -> Result<Option<Token>, ApiError> {
        let item = poll_fn(|context| Pin::new(&mut self.stream).poll_next(context)).await;
        match item {
            None => Ok(None),
            Some(Ok(token)) => {
                let now = Instant::now();
                let metrics = &self.context.metrics;
                metrics.generation_tokens.fetch_add(1, Ordering::Relaxed);
                self.context.usage.add_generated(1);
                match self.last {
                    None => metrics.first_token.observe((now - self.begun).as_secs_f64()),
                    Some(last) => metrics.inter_token.observe((now - last).as_secs_f64()),
                }
                self.last = Some(now);
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

    /// The sizes and times so far.
    pub(crate) fn stats(&self) -> Stats {
        self.stream.stats()
    }

    /// The end, after the last token.
    pub(crate) fn end(&mut self) -> End {
        let reason = self.stream.finish_reason().unwrap_or(FinishReason::Cancelled);
        self.count(match reason {
            _ if self.called => Outcome::ToolCalls,
            FinishReason::End | FinishReason::Stop => Outcome::Stop,
            FinishReason::Length => Outcome::Length,
            _ => Outcome::Abort,
        });
        let stop = (reason == FinishReason::Stop).then(|| self.stop_string()).flatten();
        End { reason, stats: self.stream.stats(), stop }
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
            self.context.metrics.end(outcome, &self.stream.stats(), seconds);
        }
    }
}

impl Drop for TokenRun {
    fn drop(&mut self) {
        self.count(Outcome::Abort);
    }
}
