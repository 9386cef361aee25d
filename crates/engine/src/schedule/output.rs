//! The text of one request: from sampled tokens to events.

use std::{
    mem,
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use pelton_sampling::Sampled;
use pelton_tokenizer::{DecodeState, TokenType, Tokenizer};
use web_time::Instant;

use super::stop::StopMatcher;
use crate::{
    Error,
    api::{Event, FinishReason, PromptToken, RequestHandle, Token, TokenLogprob},
};

/// A request's callback.
pub(crate) type Sink = Box<dyn FnMut(Event) -> ControlFlow<()> + Send>;

/// Decodes tokens, looks for stop strings and calls the callback. The callback receives exactly one
/// last event, unless it stops the request itself.
pub(crate) struct Output {
    sink: Option<Sink>,
    pub(crate) handle: RequestHandle,
    decoder: DecodeState,
    stops: StopMatcher,
    ignore_eos: bool,
    /// Whether the next token completes the text.
    completes: bool,
    generated: usize,
    submitted: Instant,
    first: Option<Instant>,
}

impl Output {
    pub(crate) fn new(
        sink: Sink,
        handle: RequestHandle,
        stop: Vec<String>,
        ignore_eos: bool,
    ) -> Self {
        Self {
            sink: Some(sink),
            handle,
            decoder: DecodeState::continuing(false),
            stops: StopMatcher::new(stop),
            ignore_eos,
            completes: false,
            generated: 0,
            submitted: Instant::now(),
            first: None,
        }
    }

    /// The time since the submission.
    pub(crate) fn age(&self) -> Duration {
        self.submitted.elapsed()
    }

    /// Announces that the next token, the last one, completes the text: it ends by itself.
    pub(crate) fn complete(&mut self) {
        self.completes = true;
    }

    /// Passes on the tokens of the prompt with their log-probabilities.
    pub(crate) fn prompt(&mut self, tokens: Vec<PromptToken>) {
        self.send(Event::Prompt(tokens));
    }

    /// Passes on the next token; `last` if there may be no more. Returns whether the text goes on.
    pub(crate) fn push(
        &mut self,
        sampled: Sampled,
        last: bool,
        tokenizer: Option<&Tokenizer>,
    ) -> bool {
        let Some(id) = sampled.token else {
            self.fail(Error::NotANumber { index: self.generated });
            return false;
        };
        self.count();
        let ended = !self.ignore_eos && tokenizer.is_some_and(|t| t.is_end(id));
        // a control token has no text; what is held back before it comes with it
        let control = tokenizer.is_some_and(|t| t.token_type(id) == Some(TokenType::Control));
        let piece = match tokenizer {
            Some(tokenizer) if !ended && !control => self.decoder.push(tokenizer, id),
            _ => String::new(),
        };
        let mut checked = self.stops.push(&piece);
        if (ended || last || control) && !checked.stopped {
            // no more text joins what the decoder and the matcher hold back
            let rest = mem::replace(&mut self.decoder, DecodeState::continuing(false)).finish();
            let tail = self.stops.push(&rest);
            checked.text.push_str(&tail.text);
            checked.stopped = tail.stopped;
            if !checked.stopped {
                checked.text.push_str(&self.stops.finish());
            }
        }
        let mut token = Token::new(id, checked.text);
        if let Some(log_probs) = sampled.log_probs {
            token.logprob = Some(log_probs.drawn);
            token.top = TokenLogprob::list(log_probs.top);
        }
        self.send(Event::Token(token));
        let reason = match (checked.stopped, ended, last) {
            (true, ..) => FinishReason::Stop,
            (_, true, _) => FinishReason::End,
            (.., true) if self.completes => FinishReason::End,
            (.., true) => FinishReason::Length,
            _ => return self.sink.is_some(),
        };
        self.finish(reason);
        false
    }

    fn count(&mut self) {
        let now = Instant::now();
        let first = *self.first.get_or_insert(now);
        self.generated += 1;
        let (generated, submitted) = (self.generated, self.submitted);
        self.handle.update(|stats| {
            stats.generated_tokens = generated;
            stats.time_to_first_token = Some(first - submitted);
            stats.decode = now - first;
        });
    }

    /// Ends the text. Without effect after another end.
    pub(crate) fn finish(&mut self, reason: FinishReason) {
        let stats = self.handle.stats();
        self.send(Event::Finished { reason, stats });
        self.sink = None;
    }

    /// Ends the request with an error. Without effect after another end.
    pub(crate) fn fail(&mut self, error: Error) {
        self.send(Event::Failed(error));
        self.sink = None;
    }

    fn send(&mut self, event: Event) {
        let Some(sink) = &mut self.sink else { return };
        // a callback that panics ends its own request only
        let flow = catch_unwind(AssertUnwindSafe(|| sink(event)));
        if flow.is_err() {
            tracing::error!("the callback of a request panicked");
        }
        if !matches!(flow, Ok(ControlFlow::Continue(()))) {
            self.handle.cancel();
            self.sink = None;
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.fail(Error::Stopped);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::{api::Stats, built_in::built_in};

    type Seen = Arc<Mutex<(String, Vec<FinishReason>)>>;

    /// An output for these stop strings, and the text and the ends that its callback receives.
    fn output(stop: &[&str]) -> (Output, Seen) {
        let seen = Seen::default();
        let events = Arc::clone(&seen);
        let sink = move |event| {
            let mut seen = events.lock().unwrap();
            match event {
                Event::Token(token) => seen.0.push_str(&token.text),
                Event::Finished { reason, .. } => seen.1.push(reason),
                Event::Failed(error) => panic!("{error}"),
                Event::Prompt(tokens) => panic!("{tokens:?}"),
            }
            ControlFlow::Continue(())
        };
        let handle = RequestHandle::new(Stats::new(1, 0));
        let stop = stop.iter().map(|&stop| stop.to_owned()).collect();
        (Output::new(Box::new(sink), handle, stop, false), seen)
    }

    fn token(id: u32) -> Sampled {
        Sampled { token: Some(id), log_probs: None }
    }

    #[test]
    fn a_stop_string_in_the_last_flush() {
        let tokenizer = Tokenizer::from_metadata(built_in().unwrap().metadata()).unwrap();
        // the first byte of a character, which becomes U+FFFD when nothing follows
        let byte = (0..tokenizer.vocab_size() as u32)
            .find(|&id| tokenizer.token_bytes(id) == Some(&[0xC3]))
            .unwrap();
        let end = tokenizer.ends()[0];
        for stop in ["\u{FFFD}", "a\u{FFFD}"] {
            let a = tokenizer.encode("a", pelton_tokenizer::Special::Ignore).unwrap();
            // as the last token of all, and before the model's end
            for last in [true, false] {
                let (mut output, seen) = output(&[stop]);
                for &id in &a {
                    assert!(output.push(token(id), false, Some(&tokenizer)));
                }
                let mut goes_on = output.push(token(byte), last, Some(&tokenizer));
                if !last {
                    assert!(goes_on);
                    goes_on = output.push(token(end), false, Some(&tokenizer));
                }
                assert!(!goes_on);
                let seen = seen.lock().unwrap();
                assert_eq!(seen.1, [FinishReason::Stop], "{stop:?} {last}");
                assert_eq!(seen.0.trim(), if stop.len() > 3 { "" } else { "a" });
            }
        }
    }

    #[test]
    fn text_that_is_held_back_comes_with_the_end() {
        let tokenizer = Tokenizer::from_metadata(built_in().unwrap().metadata()).unwrap();
        let ids = tokenizer.encode("one two", pelton_tokenizer::Special::Ignore).unwrap();
        let (mut output, seen) = output(&["two!"]);
        for (i, &id) in ids.iter().enumerate() {
            let last = i + 1 == ids.len();
            assert_eq!(output.push(token(id), last, Some(&tokenizer)), !last);
        }
        output.finish(FinishReason::Cancelled);
        output.fail(Error::Stopped);
        drop(output);
        let seen = seen.lock().unwrap();
        assert_eq!((seen.0.trim(), &seen.1[..]), ("one two", &[FinishReason::Length][..]));
    }
}
