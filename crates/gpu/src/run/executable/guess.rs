//! Passes that may come, recorded while the GPU runs the pass before.
//!
//! A pass cannot always be submitted before the results of the one before are known: the rules of
//! speech choose tokens on the host, and a part of a model waits for another device. Its
//! recording would delay all of them. Its commands depend on its shape and its draws alone. Most
//! decoding passes have the shape of the stream's pass before, one position later. So they are
//! recorded before they come. Values are written when they are known; commands of a pass of
//! another shape are dropped.

use std::collections::VecDeque;

use super::shape::PassShape;
use crate::kernels::{ranking::RankingCall, sample::SampleCall};

/// Passes that are kept at most: one of each of several streams in turn.
const MOST: usize = 4;

/// The use of a pass's logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Sample(SampleCall),
    Rank(RankingCall),
}

/// A decoding pass that may come.
pub(super) struct Guess {
    pub(super) shape: PassShape,
    pub(super) call: Call,
    /// Whether persistent kernels run.
    pub(super) persists: bool,
    /// Its commands, if they are recorded.
    pub(super) commands: Option<Vec<wgpu::CommandBuffer>>,
}

/// The passes that may come, the oldest first.
#[derive(Default)]
pub(super) struct Guesses(VecDeque<Guess>);

impl Guesses {
    /// The guess of a pass that has come, if it was one.
    pub(super) fn take(&mut self, shape: &PassShape, call: Call, persists: bool) -> Option<Guess> {
        let is_it =
            |guess: &Guess| (&guess.shape, guess.call, guess.persists) == (shape, call, persists);
        let at = self.0.iter().position(is_it)?;
        self.0.remove(at)
    }

    /// Keeps a guess in place of the oldest one.
    pub(super) fn push(&mut self, guess: Guess) {
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back(guess);
    }

    /// Those with commands.
    #[cfg(test)]
    pub(super) fn recorded(&self) -> usize {
        self.0.iter().filter(|guess| guess.commands.is_some()).count()
    }

    #[cfg(test)]
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
