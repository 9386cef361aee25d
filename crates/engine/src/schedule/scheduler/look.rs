//! Passes of the vision tower, one between others.

use std::ops::ControlFlow;

use super::Scheduler;

impl Scheduler {
    /// Runs a pass of the vision tower for the oldest sequence that comes to a picture which is not
    /// seen yet. Sequences that decode wait for one such pass at most. Returns whether there was
    /// one.
    pub(super) fn look(&mut self) -> bool {
        let Some(eyes) = &mut self.resources.eyes else { return false };
        let waiting = self.requests.running().find_map(|(id, sequence)| {
            let (picture, row) = sequence.pictures()?.unseen(sequence.submitted())?;
            (row <= sequence.submitted()).then_some((id, picture))
        });
        let Some((id, picture)) = waiting else { return false };
        let Some(pictures) = self.requests.get_mut(id).and_then(|one| one.pictures_mut()) else {
            return false;
        };
        match eyes.look(pictures, picture) {
            Ok(ControlFlow::Break(()) | ControlFlow::Continue(())) => {}
            Err(error) => self.end(id, Err(error)),
        }
        true
    }
}
