//! The time of each step of a pass.

use std::time::Duration;

/// Times of repeated passes over the same rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The steps `[plan steps]`, in the plan's order: means of all passes.
    pub steps: Vec<StepProfile>,
    /// Time of a whole pass without timestamps between its steps: the mean of consecutive passes.
    pub pass: Duration,
    /// CPU time to record a pass.
    pub recording: Duration,
    /// Bytes per second of a kernel that only reads, if that was measured.
    pub read_bandwidth: Option<f64>,
}

/// Time and dispatches of one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepProfile {
    /// Time from the end of the previous step to its own end.
    pub time: Duration,
    /// Number of dispatches.
    pub dispatches: usize,
    /// Number of dispatches that had to wait for the previous one.
    pub dependent: usize,
    /// The share of the weights of its [marked](crate::Weight::effort) matrices that the rows
    /// multiplied, of the mean row: 1 at effort 1.
    pub live: f64,
}
