//! A constraint that follows one text: it moves to a worker with each token, and back.

use std::sync::Arc;

use pelton_constraint::{Error, Matcher};
use pelton_tokenizer::Tokenizer;

use crate::api::Trigger;

/// What a follower takes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// The beginning of the text.
    Start,
    /// The next token.
    Token(u32),
}

/// What became of it.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It was taken.
    Taken {
        /// The tokens that have to come next: they were taken too.
        forced: Vec<u32>,
        /// Whether the text ends here.
        ended: bool,
        /// The tokens that may come next `[vocab / 32]`; `None` for all.
        mask: Option<Vec<u32>>,
    },
    /// The token may not come here, which no mask could know: another one has to be drawn.
    Refused,
    /// The constraint cannot be followed.
    Failed(Error),
}

/// A matcher with the triggers that it waits for.
pub(crate) struct Follower {
    matcher: Matcher,
    tokenizer: Arc<Tokenizer>,
    /// Empty once the constraint has begun.
    triggers: Vec<Trigger>,
    /// The end of the text before a trigger.
    tail: Vec<u8>,
    /// Whether tokens without a choice are taken without a draw.
    forces: bool,
    /// Words of a mask.
    words: usize,
}

impl Follower {
    /// A follower for masks of a vocabulary of `vocab` tokens.
    pub(crate) fn new(
        matcher: Matcher,
        tokenizer: Arc<Tokenizer>,
        triggers: Vec<Trigger>,
        forces: bool,
        vocab: usize,
    ) -> Self {
        let words = vocab.div_ceil(32);
        Self { matcher, tokenizer, triggers, tail: Vec::new(), forces, words }
    }

    /// Takes a step.
    pub(crate) fn step(&mut self, step: Step) -> Outcome {
        let token = match step {
            Step::Start => None,
            Step::Token(token) => Some(token),
        };
        self.try_step(token).unwrap_or_else(Outcome::Failed)
    }

    fn try_step(&mut self, token: Option<u32>) -> Result<Outcome, Error> {
        if let Some(token) = token {
            if self.triggers.is_empty() {
                self.matcher.consume(token)?;
            } else if !self.look_for_trigger(token)? {
                return Ok(Outcome::Refused);
            }
        }
        if !self.triggers.is_empty() {
            return Ok(Outcome::Taken { forced: Vec::new(), ended: false, mask: None });
        }
        let forced = if self.forces { self.matcher.consume_forced()? } else { Vec::new() };
        let ended = self.matcher.is_stopped();
        let mask = match ended {
            true => None,
            false => {
                let mut mask = self.matcher.mask()?;
                mask.resize(self.words, 0);
                Some(mask)
            }
        };
        Ok(Outcome::Taken { forced, ended, mask })
    }

    /// Adds a token to the text before the constraint, which may begin with it. Returns false if the
    /// token may not come: it ends a text that has to go on, or what it has after the trigger is not
    /// allowed.
    fn look_for_trigger(&mut self, token: u32) -> Result<bool, Error> {
        if self.tokenizer.is_end(token) {
            return Ok(self.triggers.iter().all(|trigger| trigger.included));
        }
        let bytes = self.tokenizer.token_bytes(token).unwrap_or_default();
        let before = self.tail.len();
        self.tail.extend_from_slice(bytes);
        let ends = |trigger: &Trigger| {
            let text = trigger.text.as_bytes();
            let mut windows = self.tail.windows(text.len());
            windows.position(|window| window == text).map(|at| at + text.len())
        };
        let found = (0..).zip(&self.triggers).filter_map(|(i, t)| Some((ends(t)?, i))).min();
        let Some((end, index)) = found else {
            let longest = self.triggers.iter().map(|t| t.text.len()).max().unwrap_or(1);
            self.tail.drain(..self.tail.len().saturating_sub(longest - 1));
            return Ok(true);
        };
        let Trigger { text, included } = &self.triggers[index];
        let rest = &self.tail[end..];
        // a trial: if it fails, the matcher stays at its beginning
        let mut matcher = self.matcher.copy();
        let taken = match included {
            false => matcher.try_consume_bytes(rest)?,
            // a control token is one for the grammar too
            true if text.as_bytes() == bytes && matcher.try_consume(&[token])? == 1 => true,
            true => {
                matcher = self.matcher.copy();
                matcher.try_consume_bytes(&[text.as_bytes(), rest].concat())?
            }
        };
        match taken {
            true => {
                self.matcher = matcher;
                self.triggers.clear();
            }
            false => self.tail.truncate(before),
        }
        Ok(taken)
    }
}
