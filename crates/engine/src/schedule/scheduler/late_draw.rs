//! Draws that follow their passes.
//!
//! While a constrained sequence is alone, the row of its next token runs before the host knows the
//! token before it. The mask of that row's draw is computed meanwhile.

use super::Scheduler;
use crate::schedule::pass::SubmittedPass;

impl Scheduler {
    /// Whether passes of constrained sequences are submitted before their draws are known. One
    /// sequence has to be alone, as the draws of several would wait for the slowest mask.
    pub(super) fn draws_late(&self) -> bool {
        self.resources.runner.pipeline.late_draws && self.requests.len() == 1
    }

    /// Draws the token of the newest pass, if it waits for its draw and the mask is known. Where a
    /// constraint has forced the token meanwhile, nothing is drawn.
    pub(super) fn draw_late(&mut self) {
        let Some(pass) = self.passes.back().filter(|pass| pass.awaits_draw) else { return };
        let ticket = pass.ticket;
        let Some(entry) = pass.plan.entries.first() else { return };
        let sequence = self.requests.get(entry.id).filter(|s| s.running().is_some());
        let Some(sequence) = sequence else {
            // it has ended
            return self.draw_newest_none();
        };
        // the token before it is known, and what may follow
        let is_ahead = sequence.in_flight().tokens > entry.samples;
        if is_ahead || sequence.goal().is_constraint_busy() {
            return;
        }
        let sample = sequence.late_sample(entry.first);
        let Some(sample) = sample else { return self.draw_newest_none() };
        let (id, drawn) = (entry.id, self.resources.runner.draw(ticket, Some(&sample)));
        let Some(mut pass) = self.passes.pop_back() else { return };
        pass.settle_draw();
        if let Some(sequence) = self.requests.get_mut(id) {
            sequence.settle_draw(0);
        }
        if let Err(error) = drawn {
            self.fail_pass(&pass.plan, &error);
        }
        self.passes.push_back(pass);
    }

    fn draw_newest_none(&mut self) {
        if let Some(mut pass) = self.passes.pop_back() {
            self.draw_none(&mut pass);
            self.passes.push_back(pass);
        }
    }

    /// Lets a pass that waits for its draw have no sample.
    pub(super) fn draw_none(&mut self, pass: &mut SubmittedPass) {
        pass.settle_draw();
        if let Err(error) = self.resources.runner.draw(pass.ticket, None) {
            self.fail_pass(&pass.plan, &error);
        }
        for entry in &mut pass.plan.entries {
            let dropped = entry.sample_nothing();
            let Some(sequence) = self.requests.get_mut(entry.id) else { continue };
            sequence.settle_draw(dropped);
            if sequence.running().is_some() && sequence.tokens().len() <= entry.first + 1 {
                // the row has no token after it: it is run again
                self.preempt(entry.id);
            }
        }
    }
}
