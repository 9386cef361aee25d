//! Passes that may come, recorded while the GPU runs the pass before.
//!
//! A pass cannot always be submitted before the results of the one before are known: the rules of speech choose tokens on
//! the host, and a part of a model waits for another device. Its recording would delay all of them. Its commands depend
//! on its shape and its draws alone. Most decoding passes have the shape of the stream's pass before, one position
//! later. So they are recorded before they come. Values are written when they are known; commands of a pass of another
//! shape are dropped.

use std::collections::VecDeque;

use pelton_graph::Phase;

use super::{GpuExecutable, record::Run, shape::PassShape};
use crate::{
    kernels::{rank::RankCall, sample::SampleCall},
    run::in_flight::Recorded,
};

/// Passes that are kept at most: one of each of several streams in turn.
const MOST: usize = 4;

/// What a pass does with its logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Sample(SampleCall),
    Rank(RankCall),
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

impl GpuExecutable {
    /// Whether commands of a pass can be recorded before it comes: those of a part, as no other device waits for a whole
    /// model, and those that wait for the host.
    fn can_guess(&self, run: &Run) -> bool {
        let is_part = self.host.is_none() && self.in_flight.hurries();
        (is_part || run.waits)
            && run.shape.phase == Phase::Decode
            && run.repeat == 1
            && run.logits.is_empty()
    }

    /// The guess of a pass that has come, if it was one.
    pub(super) fn guessed(&mut self, run: &Run) -> Option<Guess> {
        match self.can_guess(run) {
            true => self.guesses.take(&run.shape, Call::Sample(run.call), run.persists),
            false => None,
        }
    }

    /// Records a pass after commands that it begins with. Its own may have been recorded before.
    pub(super) fn recorded_of(
        &self,
        run: &Run,
        mut encoder: wgpu::CommandEncoder,
        guess: Option<&mut Guess>,
    ) -> Recorded {
        let commands = guess.and_then(|guess| guess.commands.take());
        if commands.is_none() && !run.waits {
            return self.recorded(run, encoder);
        }
        let after = self.device.device.create_command_encoder(&Default::default());
        let before = std::mem::replace(&mut encoder, after).finish();
        let (commands, rest) = match commands {
            Some(commands) => (commands, self.results(run, encoder, 0)),
            None => (self.record_waits(&run.shape), self.recorded(run, encoder)),
        };
        Recorded { first: [before].into_iter().chain(commands).collect(), ..rest }
    }

    /// The commands of the pass after one that was submitted, if that one was guessed too.
    pub(super) fn recorded_next(
        &self,
        run: &Run,
        was_guessed: bool,
    ) -> Option<Vec<wgpu::CommandBuffer>> {
        if !was_guessed || !self.can_guess(run) {
            return None;
        }
        let shape = run.shape.next();
        let mut encoder = self.device.device.create_command_encoder(&Default::default());
        let mut compute = encoder.begin_compute_pass(&Default::default());
        self.record(&mut compute, &shape, (run.first, self.next_persists(run)));
        self.sample.record(&mut compute, &run.call);
        drop(compute);
        Some(vec![encoder.finish()])
    }

    fn next_persists(&self, run: &Run) -> bool {
        let shape = run.shape.next();
        run.persists && self.kernels_of(&shape).is_some_and(|kernels| kernels.covers(shape.bound))
    }

    /// Guesses the pass after one that was submitted, and keeps its commands if they are recorded.
    pub(super) fn guess(&mut self, run: &Run, commands: Option<Vec<wgpu::CommandBuffer>>) {
        if !self.can_guess(run) {
            return;
        }
        let (shape, persists) = (run.shape.next(), self.next_persists(run));
        self.guesses.push(Guess { shape, call: Call::Sample(run.call), persists, commands });
    }
}
