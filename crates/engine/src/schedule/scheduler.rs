//! The state of all requests of one model, and its step.
//!
//! A step fills the pipeline: until as many passes are in flight as `Pipeline::depth`, it ends
//! cancelled and expired requests, admits waiting ones, plans a pass and submits it. Then it takes
//! the oldest pass: tokens are decoded, stop strings matched, events sent, full pages committed to
//! the prefix tree. Results of a request that has ended meanwhile are dropped.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use pelton_graph::{Phase, Ticket};
use pelton_tokenizer::Tokenizer;
use web_time::Instant;

use super::{
    constraint::MatcherPool,
    goal::Goal,
    prefill_budget::{Average, PrefillBudget, Targets},
    queue::QueueBound,
    resources::Resources,
    sequence::Sequence,
    shares::Shares,
    speculate::{DraftModel, HeadModel, PassCosts, Rate},
};
use crate::{
    Error,
    api::{FinishReason, Status},
};

/// Seconds that a new request waits for passes that were submitted before it came. One of longer passes waits
/// for two of them: one that runs, and one with which the device goes on.
pub(super) const WAIT: f64 = 0.01;

/// Failed passes one after the other, after which a model answers no more.
const FAILURES_MAX: usize = 3;

/// Drafted tokens of one sequence.
pub(super) struct Draft {
    /// [`UNKNOWN`] as long as they are not known.
    pub(super) tokens: Vec<u32>,
    /// Tokens that the pass has room for.
    pub(super) most: usize,
    /// Whether the draft model drafted them.
    pub(super) by_model: bool,
    /// The position of the first in the draft model's sequence, where they are not known: the pass
    /// finds them there, and its results have them.
    pub(super) at: Option<u32>,
}

/// A drafted token that is not known yet.
pub(super) const UNKNOWN: u32 = u32::MAX;

/// Rows of one sequence in a pass.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) id: u64,
    /// The position of the first row.
    pub(super) first: usize,
    /// Rows.
    pub(super) count: usize,
    /// Rows that score a token of the prompt. Their samples come before the others.
    pub(super) scores: usize,
    /// The last rows that sample a token.
    pub(super) samples: usize,
    /// Rows whose values are wanted.
    pub(super) values: usize,
    /// Drafted tokens, one for each of the last rows.
    pub(super) drafts: Vec<u32>,
    /// Whether a draft model drafted them.
    pub(super) by_model: bool,
    /// The position of the first in the draft model's sequence, where they were not known when the pass
    /// was submitted.
    pub(super) at: Option<u32>,
}

impl Entry {
    pub(super) fn new(id: u64, first: usize, count: usize, samples: bool) -> Self {
        let samples = usize::from(samples);
        Self {
            id,
            first,
            count,
            scores: 0,
            samples,
            values: 0,
            drafts: Vec::new(),
            by_model: false,
            at: None,
        }
    }

    /// The newest `known` tokens of a sequence, from position `first` on, and a draft of those after
    /// them.
    pub(super) fn verifying(id: u64, first: usize, known: usize, draft: Draft) -> Self {
        let Draft { tokens: drafts, by_model, at, most: _ } = draft;
        let (count, samples) = (known + drafts.len(), drafts.len() + 1);
        Self { id, first, count, scores: 0, samples, values: 0, drafts, by_model, at }
    }
}

/// A pass to be submitted.
#[derive(Debug)]
pub(super) struct PlannedPass {
    pub(super) phase: Phase,
    pub(super) entries: Vec<Entry>,
    pub(super) repeat: u32,
    /// The time in which a draft model drafted for it, before it was submitted.
    pub(super) drafting: Duration,
    /// Whether the head finds the hidden states of its rows on the device.
    pub(super) leaves_hidden: bool,
}

impl PlannedPass {
    /// Drafted tokens in all.
    pub(super) fn drafted(&self) -> usize {
        self.entries.iter().map(|entry| entry.drafts.len()).sum()
    }

    /// Whether it finds drafted tokens on the device.
    pub(super) fn finds_drafts(&self) -> bool {
        self.entries.iter().any(|entry| entry.at.is_some())
    }

    /// Takes note of the drafted tokens that it has found on the device.
    pub(super) fn know_drafts(&mut self, mut found: &[u32]) {
        for entry in self.entries.iter_mut().filter(|entry| entry.at.is_some()) {
            let (own, others) = found.split_at(entry.drafts.len().min(found.len()));
            entry.drafts[..own.len()].copy_from_slice(own);
            found = others;
        }
    }
}

/// A pass that was submitted and not taken.
pub(super) struct SubmittedPass {
    pub(super) ticket: Ticket,
    pub(super) work: PlannedPass,
    pub(super) submitted: Instant,
    /// Whether its token is not drawn yet.
    pub(super) awaits_draw: bool,
}

/// The kinds of passes that take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Decode,
    Prompt,
    Recompute,
}

/// The state of all requests of one model. Requests are numbered in the order of their arrival, so
/// the least number is the oldest.
pub(crate) struct Scheduler {
    pub(super) resources: Resources,
    pub(super) tokenizer: Option<Arc<Tokenizer>>,
    pub(super) sequences: BTreeMap<u64, Sequence>,
    /// Requests without a slot: those that wait for their start, and preempted ones.
    pub(super) queue: BTreeSet<u64>,
    /// Requests with a slot.
    pub(super) running: BTreeSet<u64>,
    /// The tokens that each client was served.
    pub(super) shares: Shares,
    pub(super) slots: Vec<u32>,
    next_id: u64,
    pub(super) flights: VecDeque<SubmittedPass>,
    pub(super) last_taken: Option<Instant>,
    pub(super) budget: PrefillBudget,
    /// Constraints at work.
    pub(super) matchers: MatcherPool,
    /// Seconds of one decoding pass.
    pub(super) decode_time: Average,
    /// Seconds of decoding passes by their rows.
    pub(super) costs: PassCosts,
    /// The draft model, if there is one.
    pub(super) draft_model: Option<DraftModel>,
    /// The head of the model's file, if it drafts.
    pub(super) head: Option<HeadModel>,
    /// Whether the draft model or the head is the partner of the model.
    pub(super) is_paired: bool,
    /// The rate at which tokens of the draft model or the head were accepted lately, in all texts.
    pub(super) model_rate: Rate,
    /// The repeat of the decoding pass before, and its sequences.
    pub(super) repeat: u32,
    pub(super) repeated: Vec<u64>,
    /// The kind of the pass before.
    pub(super) turn: Turn,
    /// The kind of the pass before that was not [`Turn::Decode`].
    pub(super) fill: Turn,
    /// The prompt that was in a pass last.
    pub(super) served: u64,
    pub(super) failures: usize,
    gone: Option<String>,
    pub(super) status: Status,
    pub(super) bound: Arc<QueueBound>,
}

impl Scheduler {
    pub(crate) fn new(
        mut resources: Resources,
        tokenizer: Option<Arc<Tokenizer>>,
        targets: Targets,
        bound: Arc<QueueBound>,
        mut draft_model: Option<DraftModel>,
        mut head: Option<HeadModel>,
    ) -> Self {
        let runner = &mut resources.runner;
        let is_paired = match (&mut draft_model, &mut head) {
            (Some(model), _) => model.pair(runner),
            (None, Some(head)) => head.pair(runner),
            (None, None) => false,
        };
        let repeats = resources.runner.pipeline.repeat > 1;
        Self {
            slots: (0..resources.limits.sequences as u32).rev().collect(),
            budget: PrefillBudget::new(targets, resources.limits.rows)
                .of_whole_passes(resources.runner.pipeline.streams.is_some()),
            resources,
            tokenizer,
            sequences: BTreeMap::new(),
            queue: BTreeSet::new(),
            running: BTreeSet::new(),
            shares: Shares::default(),
            next_id: 0,
            flights: VecDeque::new(),
            last_taken: None,
            matchers: MatcherPool::default(),
            decode_time: Average::default(),
            costs: PassCosts::new(repeats),
            draft_model,
            head,
            is_paired,
            model_rate: Rate::of_models(),
            repeat: 0,
            repeated: Vec::new(),
            turn: Turn::Prompt,
            fill: Turn::Prompt,
            served: 0,
            failures: 0,
            gone: None,
            status: Status::default(),
            bound,
        }
    }

    /// Accepts a request.
    pub(crate) fn accept(&mut self, mut sequence: Sequence) {
        if self.gone.is_none()
            && let Err(error) = self.resources.runner.check_files()
        {
            self.lose_file(&error);
        }
        if let Some(reason) = &self.gone {
            return sequence.goal.fail(Error::Gone(reason.clone()));
        }
        // the only token of a prompt has no log-probability to wait for
        if let Err(error) = sequence.score(Vec::new()) {
            return sequence.goal.fail(error);
        }
        if !sequence.generates() && sequence.scores.is_none() {
            self.status.ended += 1;
            return sequence.goal.finish(FinishReason::Length);
        }
        sequence.decodes_prompt = matches!(sequence.goal, Goal::Text { .. })
            && sequence.scores.is_none()
            // snapshots of recurrent states are of prompts alone
            && self.resources.plan.states.is_empty()
            && self.resources.runner.pipeline.streams.is_some_and(|from| sequence.prompt < from);
        self.next_id += 1;
        let id = self.next_id;
        self.shares.enter(sequence.client.id);
        self.sequences.insert(id, sequence);
        self.queue.insert(id);
        self.begin_constraint(id);
    }

    /// Whether there is nothing to do.
    pub(crate) fn is_idle(&self) -> bool {
        self.sequences.is_empty() && self.flights.is_empty()
    }

    /// Submits passes until the pipeline is full, or as many as a new request may wait for.
    pub(crate) fn fill(&mut self) {
        self.collect_matchers();
        self.draw_late();
        while self.gone.is_none()
            && !self.flights.back().is_some_and(|flight| flight.awaits_draw)
            && self.flights.len() < self.resources.runner.pipeline.depth.max(1)
            && (self.flights.len() < 2 || self.in_flight() < WAIT)
        {
            self.sweep();
            self.admit();
            let Some(work) = self.plan() else { break };
            self.submit(work);
            self.check();
        }
    }

    /// Seconds of the passes in flight, as far as they were measured.
    fn in_flight(&self) -> f64 {
        let seconds = |flight: &SubmittedPass| match flight.work.phase {
            Phase::Prompt | Phase::Mixed { .. } => {
                self.budget.seconds(flight.work.entries.iter().map(|e| e.count).sum())
            }
            Phase::Decode | Phase::Encode => {
                self.decode_time.get().unwrap_or(0.0) * f64::from(flight.work.repeat)
            }
        };
        self.flights.iter().map(seconds).sum()
    }

    /// Takes the results of the oldest pass, if there is one.
    pub(crate) fn take_oldest(&mut self) {
        if self.flights.front().is_some_and(|flight| flight.awaits_draw) && self.await_matcher() {
            // its draw follows
        } else if let Some(flight) = self.flights.pop_front() {
            self.take(flight);
        } else if self.gone.is_none() && !self.await_matcher() {
            self.unstick();
        }
        self.check();
    }

    /// Ends the oldest request when nothing can be run although there are requests, which no state
    /// should lead to: a request must never wait for ever.
    fn unstick(&mut self) {
        if let Some(&id) = self.sequences.keys().next() {
            tracing::error!(id, "nothing can be run, the oldest request is ended");
            let available = self.resources.limits.context;
            let needed = self.sequences.get(&id).map_or(0, Sequence::expected);
            self.end(id, Err(Error::CacheFull { needed, available }));
        }
    }

    /// Ends requests that were cancelled or are past their deadlines.
    fn sweep(&mut self) {
        let mut ends = Vec::new();
        for (&id, sequence) in &self.sequences {
            if sequence.goal.handle().is_cancelled() {
                ends.push((id, Ok(FinishReason::Cancelled)));
            } else if let Some(deadline) = sequence.deadline
                && sequence.goal.age() >= deadline
            {
                ends.push((id, Err(Error::Deadline(deadline))));
            }
        }
        for (id, end) in ends {
            tracing::debug!(id, ?end, "a request is cancelled");
            self.end(id, end);
        }
    }

    /// Ends a request whatever its state. Results of its passes that are not taken yet are dropped.
    pub(super) fn end(&mut self, id: u64, end: Result<FinishReason, Error>) {
        self.queue.remove(&id);
        self.running.remove(&id);
        let Some(mut sequence) = self.sequences.remove(&id) else { return };
        if end.is_ok() {
            sequence.commit(&mut self.resources.kv);
        }
        let (expected, generated) = (sequence.charged as u64, sequence.generated() as u64);
        self.shares.leave(sequence.client.id, expected, generated);
        self.slots.extend(sequence.release(&mut self.resources.kv));
        self.status.ended += 1;
        match end {
            Ok(reason) => sequence.goal.finish(reason),
            Err(error) => sequence.goal.fail(error),
        }
        if let Some(matcher) = sequence.goal.take_matcher() {
            self.matchers.free(matcher);
        }
    }

    /// Ends all requests with the same kind of error.
    pub(crate) fn end_all(&mut self, end: impl Fn() -> Result<FinishReason, Error>) {
        let ids: Vec<u64> = self.sequences.keys().copied().collect();
        for id in ids {
            self.end(id, end());
        }
    }

    /// Counts a failed pass, and gives the model up after too many one after the other.
    pub(super) fn failed(&mut self, reason: &str) {
        self.failures += 1;
        self.status.failed_passes += 1;
        tracing::error!(reason, failures = self.failures, "a pass failed");
        if self.failures >= FAILURES_MAX {
            self.give_up(reason.to_owned());
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
        self.flights.clear();
        self.gone = Some(reason);
    }

    /// Why the model answers no more.
    pub(crate) fn gone(&self) -> Option<&str> {
        self.gone.as_deref()
    }

    /// The load at this moment.
    pub(crate) fn status(&self) -> Status {
        let (queued, queued_tokens) = self.bound.counts();
        let running = self.running.iter().filter_map(|id| self.sequences.get(id));
        Status {
            queued,
            queued_tokens,
            running: self.running.len(),
            prefilling: running.filter(|sequence| sequence.is_prefilling()).count(),
            preempted: self
                .queue
                .iter()
                .filter(|id| self.sequences.get(id).is_some_and(|s| s.place.is_none()))
                .count(),
            pages: self.resources.kv.counts(),
            snapshots: self.resources.kv.snapshot_counts(),
            evictions: self.resources.kv.evictions(),
            ..self.status.clone()
        }
    }

    /// Compares pools and sequences, in debug builds.
    fn check(&self) {
        if cfg!(debug_assertions) {
            let pages = self.running.iter().filter_map(|id| self.sequences.get(id));
            let outcome = self.resources.kv.check(pages.map(|sequence| &sequence.pages));
            debug_assert!(outcome.is_ok(), "{outcome:?}");
            debug_assert_eq!(
                self.running.len() + self.slots.len(),
                self.resources.limits.sequences
            );
            debug_assert_eq!(self.running.len() + self.queue.len(), self.sequences.len());
        }
    }
}
