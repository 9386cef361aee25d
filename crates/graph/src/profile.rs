//! Where the time of a pass goes.

use std::time::Duration;

/// What a backend measured of passes over one batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The time of each of the plan's steps, in the plan's order: the mean of all passes.
    pub steps: Vec<StepProfile>,
    /// A whole pass without stamps between its steps: the mean of passes that follow each other.
    pub pass: Duration,
    /// Time that the processor took to say what a pass is.
    pub recording: Duration,
    /// Bytes a second that a kernel reads which does nothing else, where that was measured.
    pub read_bandwidth: Option<f64>,
}

/// What was measured of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepProfile {
    /// From the end of the step before to its own end.
    pub time: Duration,
    /// Kernels that it called.
    pub dispatches: usize,
    /// Those of them that had to wait for one before.
    pub dependent: usize,
}
