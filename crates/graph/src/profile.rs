//! The time of each step of a pass, and of the ways between devices.

use std::{ops::AddAssign, time::Duration};

use crate::{Plan, Step};

/// Times of repeated passes over the same rows: means of all passes.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The parts of the plan, in the order in which a pass goes through them. A plan on
    /// one device is one part.
    pub parts: Vec<PartProfile>,
    /// The time between several devices; all zero on one.
    pub ways: Ways,
    /// Time of a whole pass without timestamps between its steps.
    pub pass: Duration,
}

/// Times of the steps of a part of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PartProfile {
    /// The device that runs them.
    pub device: String,
    /// The part, with the fused ops of the device.
    pub plan: Plan,
    /// The steps `[plan steps]`, in the plan's order.
    pub steps: Vec<StepProfile>,
    /// CPU time to record the commands of a pass.
    pub recording: Duration,
    /// Bytes per second of a kernel that only reads, if that was measured.
    pub read_bandwidth: Option<f64>,
}

/// Time that a pass spends between the steps of several devices. These and the steps of a
/// CPU are one after the other; the steps of a GPU run during `wait`, and during `stream`
/// if weights come to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ways {
    /// Values of rows on their way between devices, with the submission of commands.
    pub hop: Duration,
    /// Weights on their way to a GPU.
    pub stream: Duration,
    /// The CPU has nothing to do but wait for a GPU.
    pub wait: Duration,
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
    /// The share of the weights of its [marked](crate::Weight::marked) matrices that the rows
    /// multiplied, of the mean row: 1 of full rows.
    pub live: f64,
}

impl Profile {
    /// All steps with the parts that they are of.
    pub fn steps(&self) -> impl Iterator<Item = (&PartProfile, &Step, &StepProfile)> {
        self.parts.iter().flat_map(|part| {
            let steps = part.plan.steps.iter().zip(&part.steps);
            steps.map(move |(step, measured)| (part, step, measured))
        })
    }
}

impl AddAssign for Ways {
    fn add_assign(&mut self, Self { hop, stream, wait }: Self) {
        self.hop += hop;
        self.stream += stream;
        self.wait += wait;
    }
}

impl Ways {
    /// The means of a number of passes.
    #[must_use]
    pub fn mean(self, passes: u32) -> Self {
        let Self { hop, stream, wait } = self;
        let count = passes.max(1);
        Self { hop: hop / count, stream: stream / count, wait: wait / count }
    }
}
