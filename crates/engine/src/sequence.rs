//! One request on its way: its tokens, its text, and when it ends.

use std::{
    sync::mpsc::Sender,
    time::{Duration, Instant},
};

use pelton_graph::Choice;
use pelton_sampling::Sampler;
use pelton_tokenizer::{DecodeState, Tokenizer};

use crate::{Error, FinishReason, Request, Token, runner::Slot, stop::StopMatcher, stream::Event};

/// A request that has been checked.
pub(crate) struct Sequence {
    /// The prompt's tokens, then those that were made.
    tokens: Vec<u32>,
    prompt: usize,
    /// How many of the tokens have been run.
    pub(crate) done: usize,
    /// How many tokens there may be in all.
    most: usize,
    ignore_end: bool,
    sampler: Sampler,
    decoder: DecodeState,
    stops: StopMatcher,
    events: Sender<Event>,
    prefill: Duration,
    /// Where its keys and values are, once it runs.
    pub(crate) slot: Option<Slot>,
}

impl Sequence {
    /// `most` is the number of tokens that there may be in all, the prompt's included.
    pub(crate) fn new(
        tokens: Vec<u32>,
        most: usize,
        request: Request,
        sampler: Sampler,
        events: Sender<Event>,
    ) -> Self {
        Self {
            prompt: tokens.len(),
            tokens,
            done: 0,
            most,
            ignore_end: request.ignore_end,
            sampler,
            decoder: DecodeState::continuing(false),
            stops: StopMatcher::new(request.stop),
            events,
            prefill: Duration::ZERO,
            slot: None,
        }
    }

    /// Positions that it may need in the caches: the last token is not run.
    pub(crate) fn positions(&self) -> usize {
        self.most - 1
    }

    /// The tokens that have not been run.
    pub(crate) fn waiting(&self) -> &[u32] {
        &self.tokens[self.done..]
    }

    /// Whether all that is left to run before the next token is the last one.
    pub(crate) fn decodes(&self) -> bool {
        self.done >= self.prompt
    }

    /// Notes that a pass took `time` in which `count` of its tokens were run.
    pub(crate) fn ran(&mut self, count: usize, time: Duration) {
        if !self.decodes() {
            self.prefill += time;
        }
        self.done += count;
    }

    /// The number of the next token, from 0 for the first after the prompt.
    fn index(&self) -> usize {
        self.tokens.len() - self.prompt
    }

    /// How many more tokens there may be.
    pub(crate) fn left(&self) -> usize {
        self.most - self.tokens.len()
    }

    /// How the next tokens are to be chosen, if the logits alone decide.
    pub(crate) fn choice(&self) -> Option<Choice> {
        let sampling = self.sampler.sampling();
        (sampling.repetition_penalty == 1.0).then(|| Choice {
            temperature: sampling.temperature,
            top_k: sampling.top_k,
            top_p: sampling.top_p,
            min_p: sampling.min_p,
            seed: self.sampler.seed(),
            index: self.index() as u64,
        })
    }

    /// Chooses the next token and tells the stream. Returns whether the sequence goes on.
    pub(crate) fn advance(&mut self, logits: &[f32], tokenizer: Option<&Tokenizer>) -> bool {
        let index = self.index() as u64;
        let chosen = self.sampler.choose(logits, &self.tokens, index);
        self.push(chosen, tokenizer)
    }

    /// Takes the next token, `None` if no logit was a number, and tells the stream. Returns
    /// whether the sequence goes on.
    pub(crate) fn push(&mut self, chosen: Option<u32>, tokenizer: Option<&Tokenizer>) -> bool {
        let index = self.index();
        let Some(id) = chosen else {
            return self.fail(Error::NotANumber { index });
        };
        if index == 0 {
            self.tell(Event::Prefilled(self.prefill));
        }
        self.tokens.push(id);

        let ended = !self.ignore_end && tokenizer.is_some_and(|t| t.is_end(id));
        let piece = match tokenizer {
            Some(tokenizer) if !ended => self.decoder.push(tokenizer, id),
            _ => String::new(),
        };
        let mut checked = self.stops.push(&piece);
        let reason = if checked.stopped {
            Some(FinishReason::Stop)
        } else if ended {
            Some(FinishReason::End)
        } else if self.tokens.len() >= self.most {
            Some(FinishReason::Length)
        } else {
            None
        };
        if reason.is_some() && !checked.stopped {
            let tail = self.stops.push(&self.decoder.clone().finish());
            checked.text.push_str(&tail.text);
            checked.text.push_str(&self.stops.finish());
        }
        let token = Token { id, text: checked.text };
        let heard = self.tell(Event::Token { token, at: Instant::now() });
        if let Some(reason) = reason {
            self.tell(Event::Finished(reason));
        }
        heard && reason.is_none()
    }

    /// Tells the stream that the request failed.
    pub(crate) fn fail(&self, error: Error) -> bool {
        self.tell(Event::Failed(error));
        false
    }

    /// Whether somebody still listens.
    fn tell(&self, event: Event) -> bool {
        self.events.send(event).is_ok()
    }
}
