//! One text under a constraint.

use std::fmt;

use toktrie::TokEnv;

use crate::{Error, watch::Watched};

/// Words of the errors of llguidance 1.9.1 that name a limit of the work of a step.
const WORK: [&str; 4] =
    ["Too many items", "Current row has", "too many states", "too many expressions"];

/// Stops the step of a matcher from another thread.
#[derive(Clone, Debug)]
pub struct Interrupt(llguidance::CancellationHandle);

impl Interrupt {
    /// Stops the step that the matcher takes, or the next one. It and all later ones fail with
    /// [`Error::Work`]. Copies of the matcher that were made before are not stopped.
    pub fn stop(&self) {
        self.0.cancel();
    }
}

/// Follows one text under a constraint, token by token. After an error it stays in error.
///
/// The work of a step is bounded: one that does not end within a second, or uses up the limits of
/// the parser, fails with [`Error::Work`].
pub struct Matcher {
    inner: llguidance::Matcher,
    environment: TokEnv,
    /// Tokens of the vocabulary.
    tokens: usize,
    rolls_back: bool,
}

impl Matcher {
    pub(crate) fn new(
        inner: llguidance::Matcher,
        environment: TokEnv,
        tokens: usize,
        rolls_back: bool,
    ) -> Self {
        Self { inner: inner.into_cancellable(), environment, tokens, rolls_back }
    }

    /// A matcher in the same state that shares nothing with this one.
    pub fn copy(&self) -> Self {
        Self {
            inner: self.inner.deep_clone(),
            environment: TokEnv::clone(&self.environment),
            tokens: self.tokens,
            rolls_back: self.rolls_back,
        }
    }

    /// The means to stop a step of this matcher.
    pub fn interrupt(&self) -> Option<Interrupt> {
        self.inner.cancellation_handle().map(Interrupt)
    }

    /// Whether tokens can be [taken back](Self::rollback).
    pub fn can_roll_back(&self) -> bool {
        self.rolls_back
    }

    /// The tokens that may come next, a bit each: token `t` is bit `t % 32` of word `t / 32`. The
    /// end tokens are among them where the text may end. At least one is.
    ///
    /// # Errors
    ///
    /// If the text has ended, if the constraint became too complex, or if no token may come.
    pub fn mask(&mut self) -> Result<Vec<u32>, Error> {
        let mask = self.step(llguidance::Matcher::compute_mask)?;
        let mut words = mask.as_slice().to_vec();
        words.resize(self.tokens.div_ceil(32), 0);
        if let Some(last) = words.last_mut()
            && !self.tokens.is_multiple_of(32)
        {
            *last &= (1 << (self.tokens % 32)) - 1;
        }
        match words.iter().any(|&word| word != 0) {
            true => Ok(words),
            false => Err(Error::Stuck("no token of the vocabulary may come".to_owned())),
        }
    }

    /// Takes the next token of the text.
    ///
    /// # Errors
    ///
    /// If it may not come.
    pub fn consume(&mut self, token: u32) -> Result<(), Error> {
        self.step(|inner| inner.consume_token(token))
    }

    /// Takes tokens up to the first that may not come; returns their number.
    ///
    /// # Errors
    ///
    /// If the constraint became too complex.
    pub fn try_consume(&mut self, tokens: &[u32]) -> Result<usize, Error> {
        for (taken, &token) in tokens.iter().enumerate() {
            if self.step(|inner| inner.try_consume_tokens(&[token]))? == 0 {
                return Ok(taken);
            }
        }
        Ok(tokens.len())
    }

    /// Takes bytes, whatever their tokens; returns whether they may come. If not, some of them may
    /// have been taken.
    ///
    /// # Errors
    ///
    /// If the constraint became too complex.
    pub fn try_consume_bytes(&mut self, bytes: &[u8]) -> Result<bool, Error> {
        let trie = self.environment.tok_trie();
        let tokens = trie.greedy_tokenize(bytes);
        let length: usize = tokens.iter().map(|&token| trie.token(token).len()).sum();
        Ok(length == bytes.len() && self.try_consume(&tokens)? == tokens.len())
    }

    /// Takes the tokens that have to come next, and returns them: none if there is a choice.
    ///
    /// # Errors
    ///
    /// If the constraint became too complex.
    pub fn consume_forced(&mut self) -> Result<Vec<u32>, Error> {
        if self.is_stopped() {
            return Ok(Vec::new());
        }
        let tokens = self.step(|inner| Ok::<_, Error>(inner.compute_ff_tokens()))?;
        // it has no token for what the constraint forces, or one that has no place in the model
        let known = tokens.iter().take_while(|&&token| (token as usize) < self.tokens).count();
        let taken = self.try_consume(&tokens[..known])?;
        Ok(tokens[..taken].to_vec())
    }

    /// Takes back the newest `tokens` tokens.
    ///
    /// # Errors
    ///
    /// If there are not as many, or if the constraint [cannot](Self::can_roll_back).
    pub fn rollback(&mut self, tokens: usize) -> Result<(), Error> {
        self.step(|inner| inner.rollback(tokens))
    }

    /// Whether the text may end here.
    ///
    /// # Errors
    ///
    /// If an earlier call failed.
    pub fn is_accepting(&mut self) -> Result<bool, Error> {
        self.step(llguidance::Matcher::is_accepting)
    }

    /// Whether nothing may come any more: the text has ended, or a call failed.
    pub fn is_stopped(&self) -> bool {
        self.inner.is_stopped()
    }

    /// Whether a whole text, from here on, is allowed.
    ///
    /// # Errors
    ///
    /// If the constraint became too complex.
    pub fn accepts(&mut self, text: &[u8]) -> Result<bool, Error> {
        Ok(self.try_consume_bytes(text)? && self.is_accepting()?)
    }

    /// Parts of the constraint that its compiler warns of.
    pub fn warnings(&mut self) -> Vec<String> {
        self.inner.grammar_warnings()
    }
}

impl Matcher {
    /// Runs a step, which is cancelled if it goes on for too long.
    fn step<T, E: fmt::Display>(
        &mut self,
        step: impl FnOnce(&mut llguidance::Matcher) -> Result<T, E>,
    ) -> Result<T, Error> {
        let handle = self.inner.cancellation_handle();
        let watched = handle.as_ref().map(Watched::begin);
        let outcome = step(&mut self.inner);
        drop(watched);
        match self.inner.is_cancelled() {
            true => Err(Error::Work),
            false => outcome.map_err(|error| stuck(&error)),
        }
    }
}

impl fmt::Debug for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Matcher").field("stopped", &self.is_stopped()).finish_non_exhaustive()
    }
}

/// The reason why a step failed.
fn stuck(error: &impl fmt::Display) -> Error {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    match WORK.iter().any(|limit| line.contains(limit)) {
        true => Error::Work,
        false => Error::Stuck(line.chars().take(200).collect()),
    }
}
