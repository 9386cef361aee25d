//! The fake backend's options, and its log.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use pelton_graph::Pipeline;

use super::log::{Failure, Log};

/// A fake backend. Clones share one log.
#[derive(Clone, Debug)]
pub struct Fake {
    /// How it says that passes are best submitted.
    pub pipeline: Pipeline,
    pub(super) has_partners: bool,
    pub(super) nan_from: Option<u32>,
    pub(super) time_per_row: Duration,
    pub(super) time_per_pass: Duration,
    log: Arc<Mutex<Log>>,
    /// How many passes of each slot have failed on any part of a model.
    failures: Arc<Mutex<Vec<u64>>>,
}

impl Default for Fake {
    fn default() -> Self {
        let pipeline = Pipeline {
            depth: 1,
            stages: 1,
            repeat: 1,
            phases_agree: true,
            exact_rows: usize::MAX,
            late_draws: false,
            streams: None,
        };
        Self {
            pipeline,
            has_partners: false,
            nan_from: None,
            time_per_row: Duration::ZERO,
            time_per_pass: Duration::ZERO,
            log: Arc::default(),
            failures: Arc::default(),
        }
    }
}

impl Fake {
    /// A backend that runs `depth` passes ahead of the host, each up to `repeat` times over.
    pub fn pipelined(depth: usize, repeat: u32) -> Self {
        let fake = Self::default();
        Self { pipeline: Pipeline { depth, repeat, ..fake.pipeline }, ..fake }
    }

    /// The backend with partners: a model and what drafts for it read each other's tokens and
    /// hidden states.
    pub fn with_partners(self) -> Self {
        Self { has_partners: true, ..self }
    }

    /// The backend as a part of a model whose other part is `other`: parts after one that fails do
    /// not run its pass.
    pub fn part_of(self, other: &Self) -> Self {
        Self { failures: Arc::clone(&other.failures), ..self }
    }

    /// The number of failed passes of a slot, one more if its pass `fails`.
    pub(super) fn failures_of(&self, slot: usize, fails: bool) -> u64 {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() <= slot {
            failures.resize(slot + 1, 0);
        }
        failures[slot] += u64::from(fails);
        failures[slot]
    }

    /// The backend whose results differ between the phases of prompts and decoding. They also
    /// differ in chunks that do not begin at the border of a page.
    pub fn with_phases(mut self) -> Self {
        (self.pipeline.phases_agree, self.pipeline.exact_rows) = (false, 16);
        self
    }

    /// The backend that streams weights for prompts from this many tokens on, and whose phases
    /// differ.
    pub fn streaming_from(mut self, tokens: usize) -> Self {
        self.pipeline.streams = Some(tokens);
        self.with_phases()
    }

    /// The backend with passes that take this time for each row.
    pub fn slow(mut self, time_per_row: Duration) -> Self {
        self.time_per_row = time_per_row;
        self
    }

    /// The backend with passes that take this time, whatever their rows.
    pub fn slow_passes(mut self, time_per_pass: Duration) -> Self {
        self.time_per_pass = time_per_pass;
        self
    }

    /// The backend with logits that are NaN from a position on.
    pub fn broken_from(mut self, position: u32) -> Self {
        self.nan_from = Some(position);
        self
    }

    /// The events so far.
    pub fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the `n`th call of `submit` from now on fail.
    pub fn fail_after(&self, n: usize, failure: Failure) {
        let mut log = self.log();
        let at = log.submitted + n;
        log.failures.insert(at, failure);
    }
}
