//! The record of the executables of a fake backend: past events, and failures that are to come.

use std::collections::BTreeMap;

use pelton_graph::{Phase, Row};

/// How a pass fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// `submit` returns an error.
    Submit,
    /// `submit` panics.
    SubmitPanic,
    /// `take` returns an error.
    Take,
    /// `take` panics.
    TakePanic,
}

/// A pass as it was submitted.
#[derive(Clone, Debug)]
pub struct PassRecord {
    /// Its phase.
    pub phase: Phase,
    /// Its rows.
    pub rows: Vec<Row>,
    /// Its repeat.
    pub repeat: u32,
    /// Samples that it wants.
    pub samples: usize,
    /// Rows whose results it wants.
    pub results: usize,
    /// Entries of page tables that came with it.
    pub edited: usize,
    /// Passes that were submitted and not taken, with this one.
    pub in_flight: usize,
}

/// The events of the executables of a backend.
#[derive(Debug, Default)]
pub struct Log {
    /// All passes that were accepted, in order.
    pub passes: Vec<PassRecord>,
    /// Sentences about broken contracts.
    pub violations: Vec<String>,
    /// Calls of `submit` so far.
    pub submitted: usize,
    /// The most passes that were submitted and not taken.
    pub deepest: usize,
    /// The calls of `submit`, by number from 0, that are to fail.
    pub failures: BTreeMap<usize, Failure>,
}
