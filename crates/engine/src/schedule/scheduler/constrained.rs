//! Constrained sequences: their tokens go through matchers before they are passed on.
//!
//! The matcher of a sequence moves to a worker thread with each sampled token. It comes back with
//! forced tokens and the mask of the next draw; until then the sequence is in no pass. The
//! scheduler waits at most 2 ms for masks while other sequences could run, and takes the steps of a
//! lone request itself, until another request arrives.
//!
//! A draft takes the same path: the matcher cuts it, adds forced tokens and the mask after each,
//! and rolls itself back. A matcher that waits for a trigger can refuse a token after the draw: the
//! row is run again with that token left out of the mask.

use std::{collections::BTreeMap, time::Duration};

use pelton_sampling::Sampled;
use web_time::Instant;

use super::Scheduler;
use crate::{
    Error,
    schedule::{
        constraint::{DrawConstraint, FinishedStep, MatcherStep, Outcome, TextMatcher},
        goal::{DrawOptions, Goal},
        pass::Draft,
        sequence::Sequence,
    },
};

/// The longest time that a pass waits for the masks of constrained sequences, while others could
/// run. Almost all masks take less, and a pass of its own costs those others more.
const WAIT: Duration = Duration::from_millis(2);
/// The time until requests and cancellations are looked for again, while nothing else is to be
/// done.
const IDLE_WAIT: Duration = Duration::from_millis(3);

impl Scheduler {
    /// Lets a matcher take a step. For the only request the calling thread has nothing else to do:
    /// a change of threads costs more than most masks.
    fn send_matcher(&mut self, id: u64, matcher: Box<TextMatcher>, step: MatcherStep) {
        let Self { matchers, bound, .. } = self;
        match self.requests.len() == 1 && !matches!(step, MatcherStep::Start) {
            true => matchers.step_inline(id, matcher, step, bound),
            false => matchers.send(id, matcher, step),
        }
    }

    /// Lets a constraint begin, if the sequence has one.
    pub(super) fn begin_constraint(&mut self, id: u64) {
        let step = self.draw_options(id).and_then(|draw| draw.constraint.as_mut()?.start());
        if let Some((matcher, step)) = step {
            self.send_matcher(id, matcher, step);
        }
    }

    /// Hands sampled tokens of a constrained sequence to its matcher. All but the last were
    /// drafted.
    pub(super) fn advance_constraint(&mut self, id: u64, sampled: Vec<Sampled>) {
        let Some(draw) = self.draw_options(id) else { return };
        let known = sampled.iter().all(|sampled| sampled.token.is_some());
        let Some(constraint) = draw.constraint.as_mut().filter(|_| known) else {
            // no logit was a number: the output says so
            return self.push(id, sampled, false);
        };
        if let Some((matcher, step)) = constraint.push(sampled) {
            self.send_matcher(id, matcher, step);
        }
    }

    /// Cuts the drafts of constrained sequences to what their constraints allow, on workers.
    /// Returns the sequences whose drafts are not ready in time: they cannot be in the next pass.
    pub(super) fn allow_drafts(&mut self, drafts: &mut BTreeMap<u64, Draft>) -> Vec<u64> {
        let mut sent = Vec::new();
        for (&id, draft) in drafts.iter_mut() {
            let Some(constraint) = self.draw_options(id).and_then(|draw| draw.constraint.as_mut())
            else {
                continue;
            };
            let (count, most) = (draft.tokens.len(), draft.most);
            let tokens = std::mem::take(&mut draft.tokens);
            // one that was late for an earlier pass, of the same place
            if let Some(ready) = constraint.take_drafts() {
                draft.tokens = ready;
                draft.tokens.truncate(most);
            } else if let Some((matcher, step)) = constraint.draft(tokens, most) {
                self.send_matcher(id, matcher, step);
                sent.push((id, count));
            } else {
                self.observe_refused_draft(id, draft.by_model);
            }
        }
        let deadline = Instant::now() + WAIT;
        let is_busy = |scheduler: &Self, id: &u64| {
            scheduler.requests.get(*id).is_some_and(|s| s.goal().is_constraint_busy())
        };
        while sent.iter().any(|(id, _)| is_busy(self, id)) {
            let left = deadline.saturating_duration_since(Instant::now());
            let Some(done) = self.matchers.receive(left) else { break };
            self.receive_matcher(done);
        }
        let mut late = Vec::new();
        for (id, count) in sent {
            if is_busy(self, &id) {
                late.push(id);
                drafts.remove(&id);
                continue;
            }
            let constraint = self.draw_options(id).and_then(|draw| draw.constraint.as_mut());
            let allowed = constraint.and_then(DrawConstraint::take_drafts).unwrap_or_default();
            if let Some(draft) = drafts.get_mut(&id) {
                let (is_cut, by_model) = (allowed.len() < count, draft.by_model);
                draft.tokens = allowed;
                if is_cut {
                    self.observe_refused_draft(id, by_model);
                }
            }
        }
        drafts.retain(|_, draft| !draft.tokens.is_empty());
        late
    }

    /// Takes note of a draft model's token that the constraint does not allow.
    fn observe_refused_draft(&mut self, id: u64, by_model: bool) {
        let drafter = self.requests.get_mut(id).and_then(Sequence::drafter_mut);
        if let Some(drafter) = drafter.filter(|_| by_model) {
            drafter.observe_drafts(true, 1, 0);
        }
    }

    /// Takes matchers back, and waits a little for busy ones.
    pub(super) fn collect_matchers(&mut self) {
        let deadline = Instant::now() + WAIT;
        while self.matchers.are_busy() {
            let left = deadline.saturating_duration_since(Instant::now());
            let Some(done) = self.matchers.receive(left) else { return };
            self.receive_matcher(done);
        }
    }

    /// Waits for a matcher when there is nothing else to do. Returns whether there was one.
    pub(super) fn await_matcher(&mut self) -> bool {
        let busy = self.matchers.are_busy();
        if busy && let Some(done) = self.matchers.receive(IDLE_WAIT) {
            self.receive_matcher(done);
        }
        busy
    }

    fn draw_options(&mut self, id: u64) -> Option<&mut DrawOptions> {
        match self.requests.get_mut(id)?.goal_mut() {
            Goal::Text { draw, .. } => Some(draw),
            Goal::Values(_) => None,
        }
    }

    fn receive_matcher(&mut self, FinishedStep { id, matcher, outcome }: FinishedStep) {
        let Some(draw) = self.draw_options(id) else {
            // a request that has ended
            return self.matchers.free(matcher);
        };
        let Some(constraint) = draw.constraint.as_mut() else { return };
        match outcome {
            Outcome::Failed(error) => self.end(id, Err(Error::Constraint(error))),
            Outcome::Taken { forced, ended, mask } => {
                let pending = constraint.taken(matcher, mask);
                if let Some(sequence) = self.requests.get(id) {
                    let count = forced.len();
                    sequence.goal().handle().update(|stats| stats.forced_tokens += count);
                }
                let forced =
                    forced.into_iter().map(|id| Sampled { token: Some(id), log_probs: None });
                let tokens: Vec<Sampled> = pending.into_iter().chain(forced).collect();
                self.push(id, tokens, ended);
            }
            Outcome::Drafted(drafted) => constraint.drafted(matcher, drafted),
            Outcome::Refused => {
                let taken = constraint.refused(matcher);
                if let Some(host) = &mut draw.host {
                    host.undo();
                }
                if !taken.is_empty() {
                    self.push(id, taken, false);
                }
                let has_states = !self.resources.plan.states.is_empty();
                let Some(sequence) = self.requests.get_mut(id) else { return };
                let last = sequence.tokens().len().saturating_sub(1);
                match sequence.running_mut() {
                    None => {}
                    // a recurrent state has seen the row, so it is computed again from a snapshot
                    Some(_) if has_states => self.preempt(id),
                    // the row is run again: its token is drawn by the new mask
                    Some(running) => running.run_again(last),
                }
            }
        }
    }
}
