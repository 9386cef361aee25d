//! Whether a model still answers.

/// Failed passes one after the other, after which a model answers no more.
const FAILURES_MAX: usize = 3;

/// The failures of a model.
#[derive(Default)]
pub(super) struct Health {
    /// Passes that failed since the last one that succeeded.
    failures: usize,
    gone: Option<String>,
}

impl Health {
    /// Why the model answers no more.
    pub(super) fn gone(&self) -> Option<&str> {
        self.gone.as_deref()
    }

    /// Notes that a pass succeeded.
    pub(super) fn succeed(&mut self) {
        self.failures = 0;
    }

    /// Counts a failed pass. Returns whether the model is to be given up.
    pub(super) fn fail(&mut self, reason: &str) -> bool {
        self.failures += 1;
        tracing::error!(reason, failures = self.failures, "a pass failed");
        self.failures >= FAILURES_MAX
    }

    /// Lets the model answer no more.
    pub(super) fn give_up(&mut self, reason: String) {
        self.gone = Some(reason);
    }
}
