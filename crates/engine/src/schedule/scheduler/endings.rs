//! The ends of requests: done, cancelled or failed.

use super::Scheduler;
use crate::{Error, api::FinishReason, schedule::pass::PlannedPass};

impl Scheduler {
    /// Ends requests that were cancelled or are past their deadlines.
    pub(super) fn end_cancelled(&mut self) {
        let mut ends = Vec::new();
        for (id, sequence) in self.requests.all() {
            let goal = sequence.goal();
            if goal.handle().is_cancelled() {
                ends.push((id, Ok(FinishReason::Cancelled)));
            } else if let Some(deadline) = sequence.terms().deadline
                && goal.age() >= deadline
            {
                ends.push((id, Err(Error::Deadline(deadline))));
            }
        }
        for (id, end) in ends {
            tracing::debug!(id, ?end, "a request is cancelled");
            self.end(id, end);
        }
    }

    /// Ends the oldest request when nothing can be run although there are requests. No state should
    /// lead to that, but a request must never wait for ever.
    pub(super) fn end_stuck(&mut self) {
        let oldest = self.requests.all().next().map(|(id, sequence)| (id, sequence.expected()));
        if let Some((id, needed)) = oldest {
            tracing::error!(id, "nothing can be run, the oldest request is ended");
            let available = self.resources.limits.context;
            self.end(id, Err(Error::CacheFull { needed, available }));
        }
    }

    /// Ends a request whatever its stage. Results of its passes that are not taken yet are dropped.
    pub(super) fn end(&mut self, id: u64, end: Result<FinishReason, Error>) {
        let removed = self.requests.remove(id, end.is_ok(), &mut self.resources.kv);
        let Some(mut sequence) = removed else { return };
        let (expected, generated) = (sequence.charged() as u64, sequence.generated() as u64);
        self.shares.leave(sequence.terms().client.id, expected, generated);
        self.status.ended += 1;
        let goal = sequence.goal_mut();
        match end {
            Ok(reason) => goal.finish(reason),
            Err(error) => goal.fail(error),
        }
        if let Some(matcher) = goal.take_matcher() {
            self.matchers.free(matcher);
        }
    }

    /// Ends all requests with the same kind of error.
    pub(crate) fn end_all(&mut self, end: impl Fn() -> Result<FinishReason, Error>) {
        let ids: Vec<u64> = self.requests.all().map(|(id, _)| id).collect();
        for id in ids {
            self.end(id, end());
        }
    }

    /// Fails the requests of a pass. After too many failed passes one after the other
    /// the model is given up.
    pub(super) fn fail_pass(&mut self, pass: &PlannedPass, error: &Error) {
        if let Error::Weights(_) = error {
            return self.lose_file(error);
        }
        let reason = match error {
            Error::Pass(reason) => reason.clone(),
            other => other.to_string(),
        };
        for entry in &pass.entries {
            self.end(entry.id, Err(Error::Pass(reason.clone())));
        }
        self.status.failed_passes += 1;
        if self.health.fail(&reason) {
            self.give_up(reason);
        }
    }

    /// Gives the model up because one of its files has changed.
    pub(super) fn lose_file(&mut self, error: &Error) {
        tracing::error!(%error, "the model is given up");
        self.give_up(error.to_string());
    }

    /// Fails all requests, now and later.
    pub(crate) fn give_up(&mut self, reason: String) {
        self.end_all(|| Err(Error::Gone(reason.clone())));
        self.passes.clear();
        self.health.give_up(reason);
    }
}
