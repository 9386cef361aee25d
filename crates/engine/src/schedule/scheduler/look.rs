//! Passes of the vision tower, one between others.

use std::ops::ControlFlow;

use web_time::Instant;

use super::Scheduler;
use crate::schedule::{
    pass::{Entry, PlannedPass},
    sequence::Sequence,
};

impl Scheduler {
    /// Whether a sequence has come to a picture that is not seen yet.
    pub(super) fn looks(&self) -> bool {
        self.resources.eyes.is_some() && self.unseen().is_some()
    }

    /// The oldest sequence that has come to a picture that no tower has seen, and the picture.
    fn unseen(&self) -> Option<(u64, usize)> {
        self.requests.running().find_map(|(id, sequence)| {
            let (picture, row) = sequence.pictures()?.unseen(sequence.submitted())?;
            (row <= sequence.submitted()).then_some((id, picture))
        })
    }

    /// Runs a pass of the vision tower for the oldest sequence that has come to a picture which is
    /// not seen yet, while no other pass runs. Between two tokens of a sequence that decodes there
    /// is one such pass at most. Returns whether there was one.
    pub(super) fn look(&mut self) -> bool {
        let Some((id, picture)) = self.unseen() else { return false };
        if self.looked && self.decodes_next() {
            return false;
        }
        let Some(eyes) = &mut self.resources.eyes else { return false };
        let Some(pictures) = self.requests.get_mut(id).and_then(|one| one.pictures_mut()) else {
            return false;
        };
        self.looked = true;
        let begun = Instant::now();
        match eyes.look(pictures, picture) {
            Ok(ControlFlow::Break(()) | ControlFlow::Continue(())) => {
                if let Some(sequence) = self.requests.get(id) {
                    sequence.goal().handle().update(|stats| stats.pictures += begun.elapsed());
                }
            }
            Err(error) => self.end(id, Err(error)),
        }
        true
    }

    /// Takes note of a pass that is submitted: one that decodes lets the tower have the next.
    pub(super) fn submits(&mut self, plan: &PlannedPass) {
        let is_decoding = |entry: &Entry| {
            let prompt = self.requests.get(entry.id).map(Sequence::prompt);
            prompt.is_some_and(|prompt| entry.first >= prompt)
        };
        if plan.entries.iter().any(is_decoding) {
            self.looked = false;
        }
    }
}
