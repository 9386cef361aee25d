//! Transcripts under a constraint: the tokens that each hypothesis may have next.

use std::{collections::HashMap, ops::ControlFlow};

use pelton_constraint::{Compiler, Constraint, Matcher};
use pelton_speech::{
    Language, Segment, Vocabulary,
    decode::{Control, DrawKey, Place},
    transcribe::Observer,
};

use super::model::SpeechModel;
use crate::Error;

/// A hypothesis: its window's job, and its tokens of text.
type Key = (u64, Vec<u32>);

/// The state of the constraint after the tokens of a hypothesis.
struct State {
    matcher: Matcher,
    /// The tokens that may come next, a bit each.
    mask: Vec<u32>,
    /// Whether no text can follow.
    is_over: bool,
}

/// An observer whose hypotheses follow a constraint. The text of each window is a text of the
/// constraint. Timestamps come before and behind it, as Whisper's rules allow them.
pub(super) struct Constrained<'a, O: ?Sized> {
    observer: &'a mut O,
    vocabulary: &'a Vocabulary,
    start: Matcher,
    states: HashMap<Key, State>,
    /// Tokens of the model.
    tokens: usize,
    /// The mask that was lent last, where no state has it.
    end: Vec<u32>,
    failure: Option<pelton_constraint::Error>,
}

impl<'a, O: ?Sized> Constrained<'a, O> {
    /// Compiles a constraint for a model.
    ///
    /// # Errors
    ///
    /// [`Error::Constraint`] if it is not sound or too large.
    pub(super) fn new(
        observer: &'a mut O,
        model: &SpeechModel,
        vocabulary: &'a Vocabulary,
        constraint: &Constraint,
    ) -> Result<Self, Error> {
        let compiler = Compiler::new(model.shared_tokenizer()?)?;
        let start = compiler.compile(constraint)?;
        let tokens = model.vocab;
        let mut end = vec![0; tokens.div_ceil(32)];
        set(&mut end, vocabulary.eot);
        let states = HashMap::new();
        Ok(Self { observer, vocabulary, start, states, tokens, end, failure: None })
    }

    /// The failure of the constraint, if there was one.
    pub(super) fn failure(&mut self) -> Option<Error> {
        self.failure.take().map(Error::Constraint)
    }

    /// The state after the tokens of a key, made from that of all but the last one.
    fn state(&self, key: &Key) -> Result<State, pelton_constraint::Error> {
        let (job, tokens) = key;
        let mut matcher = match tokens.split_last() {
            None => self.start.copy(),
            Some((last, before)) => match self.states.get(&(*job, before.to_vec())) {
                Some(before) => {
                    let mut matcher = before.matcher.copy();
                    matcher.consume(*last)?;
                    matcher
                }
                None => {
                    let mut matcher = self.start.copy();
                    tokens.iter().try_for_each(|&token| matcher.consume(token))?;
                    matcher
                }
            },
        };
        let ends = matcher.is_accepting()?;
        // after the end of a text nothing but the end of the window comes
        let mut mask = match matcher.is_stopped() {
            true => Vec::new(),
            false => matcher.mask()?,
        };
        mask.resize(self.tokens.div_ceil(32), 0);
        let beyond = self.vocabulary.eot..self.tokens as u32;
        beyond.for_each(|token| mask[token as usize / 32] &= !(1 << (token % 32)));
        let is_over = mask.iter().all(|&word| word == 0);
        // a time within the text would split it
        if tokens.is_empty() || ends {
            let times = self.vocabulary.first_timestamp;
            (times..times + self.vocabulary.timestamps).for_each(|token| set(&mut mask, token));
        }
        if ends {
            set(&mut mask, self.vocabulary.eot);
        }
        Ok(State { matcher, mask, is_over })
    }
}

/// Sets the bit of a token.
fn set(mask: &mut [u32], token: u32) {
    if let Some(word) = mask.get_mut(token as usize / 32) {
        *word |= 1 << (token % 32);
    }
}

impl<O: Observer + ?Sized> Control for Constrained<'_, O> {
    fn step(&mut self) -> ControlFlow<()> {
        match self.failure {
            Some(_) => ControlFlow::Break(()),
            None => self.observer.step(),
        }
    }

    fn allowed(&mut self, place: Place<'_>) -> Option<&[u32]> {
        let is_text = |token: &&u32| **token < self.vocabulary.eot;
        let key: Key = (place.job, place.sampled.iter().filter(is_text).copied().collect());
        if !self.states.contains_key(&key) {
            // hypotheses grow by one token a step
            let (job, len) = (key.0, key.1.len());
            // a window that begins anew, and not beside others, has none to keep
            self.states.retain(|(other, text), _| match *other == job {
                true => text.len() + 2 > len,
                false => len > 0,
            });
            match self.state(&key) {
                Ok(state) => drop(self.states.insert(key.clone(), state)),
                Err(error) => {
                    self.failure.get_or_insert(error);
                    return Some(&self.end);
                }
            }
        }
        // a time behind a whole text ends the window, as no other text can begin in it
        let ends =
            place.sampled.last().is_some_and(|&last| self.vocabulary.first_timestamp <= last);
        self.states.get(&key).map(|state| match ends && state.is_over {
            true => &*self.end,
            false => &*state.mask,
        })
    }

    /// A text must be one of the constraint from its start to its end.
    fn decoded(&mut self, place: Place<'_>) -> ControlFlow<()> {
        let is_text = |token: &&u32| **token < self.vocabulary.eot;
        let text: Vec<u32> = place.sampled.iter().filter(is_text).copied().collect();
        let mut matcher = self.start.copy();
        let consumed = text.iter().try_for_each(|&token| matcher.consume(token));
        match consumed.and_then(|()| matcher.is_accepting()) {
            Ok(true) => self.observer.decoded(place),
            Ok(false) => {
                let reason = format!(
                    "a window of 30 s has the text {:?} of {} tokens and no token that ends it, \
                     expected a constraint with shorter texts",
                    self.vocabulary.decode(&text),
                    text.len()
                );
                self.failure.get_or_insert(pelton_constraint::Error::Stuck(reason));
                ControlFlow::Break(())
            }
            Err(error) => {
                self.failure.get_or_insert(error);
                ControlFlow::Break(())
            }
        }
    }

    fn draw(&mut self, logits: &[f32], temperature: f64, key: DrawKey) -> Option<u32> {
        self.observer.draw(logits, temperature, key)
    }
}

impl<O: Observer + ?Sized> Observer for Constrained<'_, O> {
    fn language(&mut self, language: Language) {
        self.observer.language(language);
    }

    fn segment(&mut self, segment: &Segment) -> ControlFlow<()> {
        self.observer.segment(segment)
    }

    fn progress(&mut self, done: usize, all: usize) -> ControlFlow<()> {
        self.observer.progress(done, all)
    }
}
