//! Draws that follow their passes: while a constrained sequence is alone, the row of its next token
//! runs before the host knows the token, and the mask of that row's draw is computed meanwhile.

use super::scheduler::{Scheduler, SubmittedPass};

impl Scheduler {
    /// Whether passes of constrained sequences are submitted before their draws are known: one
    /// sequence alone, as the draws of several would wait for the slowest mask.
    pub(super) fn draws_late(&self) -> bool {
        self.resources.runner.pipeline.late_draws && self.sequences.len() == 1
    }

    /// Draws the token of the newest pass, if it waits for its draw and the mask is known. Where a
    /// constraint has forced the token meanwhile, nothing is drawn.
    pub(super) fn draw_late(&mut self) {
        let Some(flight) = self.flights.back().filter(|flight| flight.awaits_draw) else { return };
        let ticket = flight.ticket;
        let Some(entry) = flight.work.entries.first() else { return };
        let sequence = self.sequences.get(&entry.id).filter(|sequence| sequence.slot.is_some());
        let Some(sequence) = sequence else {
            // it has ended
            return self.draw_newest_none();
        };
        // the token before it is known, and what may follow
        if sequence.ahead > entry.samples || sequence.goal.is_constraint_busy() {
            return;
        }
        let sample = sequence.late_sample(entry.first);
        let Some(sample) = sample else { return self.draw_newest_none() };
        let (id, drawn) = (entry.id, self.resources.runner.draw(ticket, Some(&sample)));
        let Some(mut flight) = self.flights.pop_back() else { return };
        flight.awaits_draw = false;
        if let Some(sequence) = self.sequences.get_mut(&id) {
            sequence.awaits_draw = false;
        }
        if let Err(error) = drawn {
            self.fail_pass(&flight.work, &error);
        }
        self.flights.push_back(flight);
    }

    fn draw_newest_none(&mut self) {
        if let Some(mut flight) = self.flights.pop_back() {
            self.draw_none(&mut flight);
            self.flights.push_back(flight);
        }
    }

    /// Lets a pass that waits for its draw have no sample.
    pub(super) fn draw_none(&mut self, flight: &mut SubmittedPass) {
        flight.awaits_draw = false;
        if let Err(error) = self.resources.runner.draw(flight.ticket, None) {
            self.fail_pass(&flight.work, &error);
        }
        for entry in &mut flight.work.entries {
            let samples = std::mem::take(&mut entry.samples);
            let Some(sequence) = self.sequences.get_mut(&entry.id) else { continue };
            sequence.awaits_draw = false;
            sequence.ahead -= samples;
            if sequence.slot.is_some() && sequence.tokens.len() <= entry.first + 1 {
                // the row has no token after it: it is run again
                self.preempt(entry.id);
            }
        }
    }
}
