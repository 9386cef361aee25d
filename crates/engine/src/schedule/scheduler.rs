//! The state of all requests of one model, and its two steps.
//!
//! [`Scheduler::schedule`] fills the pipeline: it ends cancelled and expired requests, starts
//! waiting ones, plans a pass and submits it, until enough passes are in flight.
//! [`Scheduler::postprocess`] takes the oldest pass: tokens are decoded, stop strings matched,
//! events sent, full pages committed to the prefix tree.

mod admission;
mod constrained;
mod drafts;
mod endings;
mod late_draw;
mod look;
mod plan;
mod prompts;
mod results;
mod submit;

use std::{collections::VecDeque, sync::Arc};

use pelton_tokenizer::Tokenizer;

use super::{
    constraint::MatcherPool, drafting::Drafting, goal::Goal, health::Health, pass::SubmittedPass,
    prefill_budget::Targets, queue::QueueBound, requests::Requests, resources::Resources,
    sequence::Sequence, shares::Shares, speculate::Drafter, timing::Timing, turns::Turns,
};
use crate::{
    Error,
    api::{FinishReason, Status},
    vision::Eyes,
};

/// The state of all requests of one model.
pub(crate) struct Scheduler {
    resources: Resources,
    tokenizer: Option<Arc<Tokenizer>>,
    requests: Requests,
    /// The tokens that each client was served.
    shares: Shares,
    /// Passes in flight, the oldest first.
    passes: VecDeque<SubmittedPass>,
    timing: Timing,
    turns: Turns,
    /// Whether the tower had a pass after the last pass of decoding sequences.
    looked: bool,
    drafting: Drafting,
    /// The matchers of constraints at work.
    matchers: MatcherPool,
    health: Health,
    status: Status,
    bound: Arc<QueueBound>,
}

impl Scheduler {
    pub(crate) fn new(
        mut resources: Resources,
        tokenizer: Option<Arc<Tokenizer>>,
        targets: Targets,
        bound: Arc<QueueBound>,
        drafter: Option<Box<dyn Drafter>>,
    ) -> Self {
        let drafting = Drafting::new(drafter, &mut resources.runner);
        Self {
            requests: Requests::new(resources.limits.sequences),
            timing: Timing::new(targets, resources.limits.rows, &resources.runner.pipeline),
            resources,
            tokenizer,
            shares: Shares::default(),
            passes: VecDeque::new(),
            turns: Turns::new(),
            looked: false,
            drafting,
            matchers: MatcherPool::default(),
            health: Health::default(),
            status: Status::default(),
            bound,
        }
    }

    /// Accepts a request.
    pub(crate) fn accept(&mut self, mut sequence: Sequence) {
        if self.health.gone().is_none()
            && let Err(error) = self.resources.runner.check_files()
        {
            self.lose_file(&error);
        }
        if let Some(reason) = self.health.gone() {
            return sequence.goal_mut().fail(Error::Gone(reason.to_owned()));
        }
        // the only token of a prompt has no log-probability to wait for
        if let Err(error) = sequence.score(Vec::new()) {
            return sequence.goal_mut().fail(error);
        }
        if !sequence.generates() && !sequence.is_scored() {
            self.status.ended += 1;
            return sequence.goal_mut().finish(FinishReason::Length);
        }
        if self.decodes_prompt(&sequence) {
            sequence.decode_prompt();
        }
        self.shares.enter(sequence.terms().client.id);
        let id = self.requests.add(sequence);
        self.begin_constraint(id);
    }

    /// Whether the prompt of a request runs as rows of decoding passes: it is short, and passes
    /// over prompts stream weights.
    fn decodes_prompt(&self, sequence: &Sequence) -> bool {
        let is_short = |from| sequence.prompt() < from;
        matches!(sequence.goal(), Goal::Text { .. })
            && !sequence.is_scored()
            && sequence.pictures().is_none()
            // snapshots of recurrent states are of prompts alone
            && self.resources.plan.states.is_empty()
            && self.resources.runner.pipeline.streams.is_some_and(is_short)
    }

    /// Submits passes until the pipeline is full, or as many as a new request may wait for.
    pub(crate) fn schedule(&mut self) {
        self.collect_matchers();
        self.draw_late();
        while self.has_room() {
            self.end_cancelled();
            self.start_queued();
            // results that are on their way do not wait for a tower
            if self.looks() && !self.passes.is_empty() {
                break;
            }
            let looked = self.look();
            match self.plan() {
                Some(pass) => self.submit(pass),
                None if looked => {}
                None => break,
            }
            self.check();
        }
    }

    /// Takes the results of the oldest pass, if there is one.
    pub(crate) fn postprocess(&mut self) {
        let awaits_draw = self.passes.front().is_some_and(|pass| pass.awaits_draw);
        if awaits_draw && self.await_matcher() {
            // its draw follows
        } else if let Some(pass) = self.passes.pop_front() {
            self.take(pass);
        } else if self.health.gone().is_none() && !self.await_matcher() {
            self.end_stuck();
        }
        self.check();
    }

    /// Whether there is nothing to do.
    pub(crate) fn is_idle(&self) -> bool {
        self.requests.is_empty() && self.passes.is_empty()
    }

    /// Whether a further pass may be submitted.
    fn has_room(&self) -> bool {
        self.health.gone().is_none()
            && !self.passes.back().is_some_and(|pass| pass.awaits_draw)
            && self.passes.len() < self.resources.runner.pipeline.depth.max(1)
            && !self.timing.are_enough(self.passes.iter())
    }

    /// Why the model answers no more.
    pub(crate) fn gone(&self) -> Option<&str> {
        self.health.gone()
    }

    /// The load at this moment.
    pub(crate) fn status(&self) -> Status {
        let (queued, queued_tokens) = self.bound.counts();
        let is_preempted = |id: &&u64| {
            self.requests.get(**id).is_some_and(|sequence| sequence.stage().is_preempted())
        };
        let prefilling = self.requests.running().filter(|(_, sequence)| sequence.is_prefilling());
        Status {
            queued,
            queued_tokens,
            running: self.requests.running_ids().len(),
            prefilling: prefilling.count(),
            preempted: self.requests.queued().iter().filter(is_preempted).count(),
            pages: self.resources.kv.counts(),
            snapshots: self.resources.kv.snapshot_counts(),
            evictions: self.resources.kv.evictions(),
            tower_passes: self.resources.eyes.as_ref().map_or(0, Eyes::passes),
            ..self.status.clone()
        }
    }

    /// Tells routers which pages were cached and evicted.
    pub(crate) fn send_reports(&mut self) {
        self.resources.kv.send_reports();
    }

    /// The executable and its caches, after the end of all requests.
    pub(crate) fn into_resources(self) -> Resources {
        self.resources
    }

    /// Compares pools and sequences, in debug builds.
    fn check(&self) {
        if cfg!(debug_assertions) {
            let running = self.requests.running().filter_map(|(_, sequence)| sequence.running());
            let outcome = self.resources.kv.check(running.map(|running| running.pages()));
            debug_assert!(outcome.is_ok(), "{outcome:?}");
            self.requests.check(self.resources.limits.sequences);
        }
    }
}
