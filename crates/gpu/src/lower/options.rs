//! The choices by which a plan is lowered.

use crate::kernels::matvec::Tuning;

/// The choices by which a plan is lowered.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// The launch configurations of the products of few rows.
    pub(crate) tunings: Tunings,
    /// Set if the kernels become phases of a persistent kernel.
    pub(crate) phases: Option<PhaseOptions>,
    /// Whether rows are full alone.
    pub(crate) dense: bool,
}

/// The properties that the kernels of a persistent kernel share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PhaseOptions {
    /// Threads of every workgroup.
    pub(crate) threads: usize,
    /// Whether attention loads keys before it waits for the phase before.
    pub(crate) early: bool,
}

/// The launch configurations of the steps of a plan.
#[derive(Clone, Debug)]
pub(crate) enum Tunings {
    /// One for all steps.
    Equal(Tuning),
    /// One for each step.
    OfSteps(Vec<Tuning>),
}

impl Tunings {
    /// The configuration of step `step`.
    pub(crate) fn of(&self, step: usize) -> Tuning {
        match self {
            Self::Equal(tuning) => *tuning,
            Self::OfSteps(all) => all.get(step).copied().unwrap_or(Tuning::CANDIDATES[0]),
        }
    }
}
