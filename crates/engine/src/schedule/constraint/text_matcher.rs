//! A matcher that follows one text: it moves to a worker with each token, and back.

use std::sync::Arc;

use pelton_constraint::{Error, Matcher};
use pelton_tokenizer::Tokenizer;

use crate::{api::Trigger, schedule::queue::QueueBound};

/// The tokens that may come at one place `[vocab / 32]`; `None` for all.
pub(crate) type Mask = Option<Vec<u32>>;

/// The input of a matcher.
#[derive(Clone, Debug)]
pub(crate) enum MatcherStep {
    /// The beginning of the text.
    Start,
    /// The next tokens.
    Tokens(Vec<u32>),
    /// Tokens that may come next. The first one is allowed.
    Draft {
        /// The tokens.
        tokens: Vec<u32>,
        /// The most tokens of the result.
        most: usize,
    },
}

/// The result of a step.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// They were taken.
    Taken {
        /// The tokens that have to come next: they were taken too.
        forced: Vec<u32>,
        /// Whether the text ends here.
        ended: bool,
        /// The tokens that may come next.
        mask: Mask,
    },
    /// The last token may not come here, which no mask could know: another one has to be drawn.
    Refused,
    /// The part of a draft that may come.
    Drafted(Drafted),
    /// The constraint cannot be followed.
    Failed(Error),
}

/// The beginning of a draft that a constraint allows, with the tokens that it forces.
#[derive(Debug, Default)]
pub(crate) struct Drafted {
    pub(crate) tokens: Vec<u32>,
    /// The tokens that may come after each of them: a single one where the next is forced.
    pub(crate) masks: Vec<Mask>,
}

/// Whether a mask has a token.
pub(super) fn allows(mask: &[u32], token: u32) -> bool {
    mask.get(token as usize / 32).is_some_and(|word| word >> (token % 32) & 1 == 1)
}

/// A matcher before a step that may fail, and the tokens that were taken since.
struct Saved {
    matcher: Matcher,
    tokens: Vec<u32>,
}

/// A matcher with the triggers that it waits for.
pub(crate) struct TextMatcher {
    matcher: Matcher,
    tokenizer: Arc<Tokenizer>,
    /// Empty once the constraint has begun.
    triggers: Vec<Trigger>,
    /// The end of the text before a trigger.
    tail: Vec<u8>,
    /// Whether tokens without a choice are taken without a draw.
    forces: bool,
    /// Whether drafts can be followed.
    drafts: bool,
    /// From which the matcher is made again if a draft leaves it in error, or a request stops it.
    saved: Option<Saved>,
    /// Whether the matcher was stopped.
    is_stopped: bool,
    /// Words of a mask.
    words: usize,
}

impl TextMatcher {
    /// A matcher for masks of a vocabulary of `vocab` tokens.
    pub(crate) fn new(
        matcher: Matcher,
        tokenizer: Arc<Tokenizer>,
        triggers: Vec<Trigger>,
        forces: bool,
        vocab: usize,
    ) -> Self {
        let (words, drafts) = (vocab.div_ceil(32), matcher.can_roll_back());
        let (tail, saved, is_stopped) = (Vec::new(), None, false);
        Self { matcher, tokenizer, triggers, tail, forces, drafts, saved, is_stopped, words }
    }

    /// Whether drafts can be followed.
    pub(crate) fn can_draft(&self) -> bool {
        self.drafts
    }

    /// Whether it waits for no trigger.
    pub(crate) fn has_begun(&self) -> bool {
        self.triggers.is_empty()
    }

    /// Takes a step.
    pub(crate) fn step(&mut self, step: &MatcherStep) -> Outcome {
        if std::mem::take(&mut self.is_stopped)
            && let Err(error) = self.follow_again()
        {
            return Outcome::Failed(error);
        }
        let outcome = self.try_step(step);
        self.settle(step, outcome)
    }

    /// Takes a step on the scheduler's thread. Returns `None` if a request waits for that thread:
    /// the step is to be taken by another.
    pub(crate) fn step_inline(
        &mut self,
        step: &MatcherStep,
        bound: &QueueBound,
    ) -> Option<Outcome> {
        if !self.triggers.is_empty() {
            // the text before the constraint needs no matcher until a trigger comes
            return (!self.may_begin(step)).then(|| self.step(step));
        }
        let interrupt = self.matcher.interrupt()?;
        let saved = self.saved();
        let before = saved.tokens.len();
        bound.inline_step.begin(interrupt);
        // asked after the beginning, so that a request is either seen here or sees the step
        let outcome = (bound.counts().0 == 0).then(|| self.try_step(step));
        if bound.inline_step.end() {
            self.is_stopped = true;
            if let Some(saved) = &mut self.saved {
                saved.tokens.truncate(before);
            }
            return None;
        }
        Some(self.settle(step, outcome?))
    }

    fn try_step(&mut self, step: &MatcherStep) -> Result<Outcome, Error> {
        match step {
            MatcherStep::Start => self.take(&[]),
            MatcherStep::Tokens(tokens) => self.take(tokens),
            MatcherStep::Draft { tokens, most } => self.draft(tokens, *most).map(Outcome::Drafted),
        }
    }

    /// The outcome of a step; a draft that fails leaves the text where it is.
    fn settle(&mut self, step: &MatcherStep, outcome: Result<Outcome, Error>) -> Outcome {
        let outcome = match step {
            MatcherStep::Draft { .. } => {
                outcome.or_else(|_| self.restore().map(|()| Outcome::Drafted(Drafted::default())))
            }
            _ => outcome,
        };
        outcome.unwrap_or_else(Outcome::Failed)
    }

    /// Whether a step has the end of a trigger.
    fn may_begin(&self, step: &MatcherStep) -> bool {
        let (MatcherStep::Tokens(tokens) | MatcherStep::Draft { tokens, .. }) = step else {
            return true;
        };
        let mut tail = self.tail.clone();
        for &token in tokens {
            tail.extend_from_slice(self.tokenizer.token_bytes(token).unwrap_or_default());
        }
        self.trigger_in(&tail).is_some()
    }

    /// The saved matcher, which is one from here on if there is none.
    fn saved(&mut self) -> &mut Saved {
        let Self { saved, matcher, .. } = self;
        saved.get_or_insert_with(|| Saved { matcher: matcher.copy(), tokens: Vec::new() })
    }

    /// Makes the matcher again, which was stopped.
    fn follow_again(&mut self) -> Result<(), Error> {
        if let Some(saved) = &mut self.saved {
            for token in saved.tokens.drain(..) {
                saved.matcher.consume(token)?;
            }
            self.matcher = saved.matcher.copy();
        }
        Ok(())
    }

    fn take(&mut self, tokens: &[u32]) -> Result<Outcome, Error> {
        for &token in tokens {
            if self.triggers.is_empty() {
                self.matcher.consume(token)?;
                if let Some(saved) = &mut self.saved {
                    saved.tokens.push(token);
                }
            } else if !self.look_for_trigger(token)? {
                return Ok(Outcome::Refused);
            }
        }
        if !self.triggers.is_empty() {
            return Ok(Outcome::Taken { forced: Vec::new(), ended: false, mask: None });
        }
        let forced = self.forced()?;
        if let Some(saved) = &mut self.saved {
            saved.tokens.extend(&forced);
        }
        let ended = self.matcher.is_stopped();
        let mask = if ended { None } else { Some(self.mask()?) };
        Ok(Outcome::Taken { forced, ended, mask })
    }

    fn forced(&mut self) -> Result<Vec<u32>, Error> {
        if self.forces { self.matcher.consume_forced() } else { Ok(Vec::new()) }
    }

    fn mask(&mut self) -> Result<Vec<u32>, Error> {
        let mut mask = self.matcher.mask()?;
        mask.resize(self.words, 0);
        Ok(mask)
    }

    /// Follows a draft as far as it is allowed and the text goes on after it, and returns.
    fn draft(&mut self, draft: &[u32], most: usize) -> Result<Drafted, Error> {
        if !self.triggers.is_empty() {
            return Ok(self.draft_before_trigger(&draft[..draft.len().min(most)]));
        }
        debug_assert!(!self.saved().matcher.is_stopped());
        let mut taken = 0;
        self.draft_tokens(draft, most, &mut taken)
            .and_then(|drafted| self.matcher.rollback(taken).map(|()| drafted))
    }

    /// Follows a draft; `taken` counts the tokens that the matcher took.
    fn draft_tokens(
        &mut self,
        draft: &[u32],
        most: usize,
        taken: &mut usize,
    ) -> Result<Drafted, Error> {
        let mut drafted = Drafted::default();
        let mut draft = draft.iter().copied().peekable();
        while let Some(token) = draft.next() {
            let mask = drafted.masks.last().and_then(Option::as_deref);
            let may_come = mask.is_none_or(|mask| allows(mask, token));
            if drafted.tokens.len() >= most || !may_come || self.tokenizer.is_end(token) {
                break;
            }
            self.matcher.consume(token)?;
            *taken += 1;
            let forced = self.forced()?;
            *taken += forced.len();
            if self.matcher.is_stopped() {
                break;
            }
            let mut agrees = true;
            drafted.tokens.push(token);
            for &next in &forced {
                drafted.masks.push(Some(self.only(next)));
                drafted.tokens.push(next);
                agrees = agrees && draft.next_if_eq(&next).is_some();
            }
            drafted.masks.push(Some(self.mask()?));
            if !agrees {
                break;
            }
        }
        drafted.tokens.truncate(most);
        drafted.masks.truncate(most);
        Ok(drafted)
    }

    /// A mask of a single token.
    fn only(&self, token: u32) -> Vec<u32> {
        let mut mask = vec![0; self.words];
        if let Some(word) = mask.get_mut(token as usize / 32) {
            *word |= 1 << (token % 32);
        }
        mask
    }

    /// The part of a draft after which the constraint has not begun and the text goes on.
    fn draft_before_trigger(&self, draft: &[u32]) -> Drafted {
        let mut tail = self.tail.clone();
        let free = draft.iter().take_while(|&&token| {
            tail.extend_from_slice(self.tokenizer.token_bytes(token).unwrap_or_default());
            !self.tokenizer.is_end(token) && self.trigger_in(&tail).is_none()
        });
        let tokens: Vec<u32> = free.copied().collect();
        Drafted { masks: vec![None; tokens.len()], tokens }
    }

    /// Makes the matcher again, which a draft has left in error. No drafts are followed afterwards.
    fn restore(&mut self) -> Result<(), Error> {
        self.drafts = false;
        if let Some(Saved { mut matcher, tokens }) = self.saved.take() {
            for token in tokens {
                matcher.consume(token)?;
            }
            self.matcher = matcher;
        }
        Ok(())
    }

    /// The end of the first trigger in a text, and its index.
    fn trigger_in(&self, text: &[u8]) -> Option<(usize, usize)> {
        let ends = |trigger: &Trigger| {
            let wanted = trigger.text.as_bytes();
            let mut windows = text.windows(wanted.len());
            windows.position(|window| window == wanted).map(|at| at + wanted.len())
        };
        (0..).zip(&self.triggers).filter_map(|(i, t)| Some((ends(t)?, i))).min()
    }

    /// Adds a token to the text before the constraint, which may begin with it. Returns false if
    /// the token may not come. Such a token ends a text that has to go on, or what it has after the
    /// trigger is not allowed.
    fn look_for_trigger(&mut self, token: u32) -> Result<bool, Error> {
        if self.tokenizer.is_end(token) {
            return Ok(self.triggers.iter().all(|trigger| trigger.included));
        }
        let bytes = self.tokenizer.token_bytes(token).unwrap_or_default();
        let before = self.tail.len();
        self.tail.extend_from_slice(bytes);
        let Some((end, index)) = self.trigger_in(&self.tail) else {
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

#[cfg(test)]
mod tests {
    use pelton_constraint::{Compiler, Constraint};

    use super::*;

    /// A matcher that was stopped, at any step, goes on as one that was not.
    #[test]
    fn a_stopped_step_is_taken_again() {
        let checkpoint = crate::built_in().unwrap();
        let tokenizer = Arc::new(Tokenizer::from_metadata(checkpoint.metadata()).unwrap());
        let compiler = Compiler::new(&tokenizer).unwrap();
        let schema = serde_json::json!({"type": "object", "required": ["name", "ages"],
            "additionalProperties": false, "properties": {
                "name": {"type": "string", "maxLength": 30},
                "ages": {"type": "array", "items": {"type": "integer"}, "maxItems": 9}}});
        let matcher = compiler.compile(&Constraint::JsonSchema(schema)).unwrap();
        let bound = Arc::new(QueueBound::new(1, 1));
        let new = || {
            let vocab = tokenizer.vocab_size();
            TextMatcher::new(matcher.copy(), Arc::clone(&tokenizer), Vec::new(), true, vocab)
        };
        let (mut plain, mut stopped) = (new(), new());
        let (mut step, mut count) = (MatcherStep::Start, 0);
        loop {
            let expected = plain.step(&step);
            match count % 3 {
                0 => {
                    // as in the middle of the step
                    let _ = stopped.saved();
                    stopped.matcher.interrupt().unwrap().stop();
                    stopped.is_stopped = true;
                }
                1 => {
                    // a request in the queue: the step does not begin
                    let _place = bound.enter(1, 0).unwrap();
                    assert!(stopped.step_inline(&step, &bound).is_none());
                }
                _ => {}
            }
            let found = match count % 3 {
                2 => stopped.step_inline(&step, &bound).unwrap(),
                _ => stopped.step(&step),
            };
            assert_eq!(format!("{found:?}"), format!("{expected:?}"), "step {count}");
            let Outcome::Taken { ended, mask, .. } = expected else {
                panic!("{expected:?}");
            };
            let Some(mask) = mask.filter(|_| !ended && count < 200) else { break };
            let allowed: Vec<u32> =
                (0..tokenizer.vocab_size() as u32).filter(|&id| allows(&mask, id)).collect();
            step = MatcherStep::Tokens(vec![allowed[count * 31 % allowed.len()]]);
            count += 1;
        }
        assert!(count > 10, "{count} steps");
    }
}
