//! The results of one request that are values instead of text.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use web_time::Instant;

use crate::{
    Error,
    api::{FinishReason, RequestHandle},
};

/// A request's callback for its values `[wanted rows, width]`.
pub(crate) type Done = Box<dyn FnOnce(Result<Vec<f32>, Error>) + Send>;

/// The rows of a sequence whose results are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WantedRows {
    /// The first row.
    First,
    /// The last row. It stands for all rows where a plan pools.
    Last,
    /// All rows.
    All,
}

impl WantedRows {
    /// The positions of `first..end` that are wanted of a sequence of `len` tokens.
    pub(crate) fn of(self, first: usize, end: usize, len: usize) -> std::ops::Range<usize> {
        match self {
            Self::First => first.min(1)..end.min(1),
            Self::Last => first.max(len - 1).min(end)..end,
            Self::All => first..end,
        }
    }
}

/// Collects the values of one request, and calls its callback once.
pub(crate) struct Values {
    done: Option<Done>,
    pub(crate) handle: RequestHandle,
    pub(crate) wanted: WantedRows,
    /// Values in all.
    len: usize,
    values: Vec<f32>,
    submitted: Instant,
}

impl Values {
    /// For `len` values of a request that was submitted at `submitted`.
    pub(crate) fn new(
        done: Done,
        handle: RequestHandle,
        wanted: WantedRows,
        len: usize,
        submitted: Instant,
    ) -> Self {
        Self { done: Some(done), handle, wanted, len, values: Vec::new(), submitted }
    }

    /// The time since the submission.
    pub(crate) fn age(&self) -> Duration {
        self.submitted.elapsed()
    }

    /// Drops values of a sequence that is run again from its first position on.
    pub(crate) fn restart(&mut self) {
        self.values.clear();
    }

    /// Adds the values of the next rows. Returns whether these were the last.
    pub(crate) fn push(&mut self, values: &[f32]) -> bool {
        self.values.extend_from_slice(values);
        self.values.len() >= self.len
    }

    /// Ends the request: with its values if they are complete and it was not cancelled. Without
    /// effect after another end.
    pub(crate) fn finish(&mut self, reason: FinishReason) {
        let complete = self.values.len() == self.len;
        let outcome = match reason {
            FinishReason::Cancelled => Err(Error::Cancelled),
            _ if !complete => Err(Error::Stopped),
            _ if self.values.iter().any(|value| !value.is_finite()) => Err(Error::NotFinite),
            _ => Ok(std::mem::take(&mut self.values)),
        };
        self.call(outcome);
    }

    /// Ends the request with an error. Without effect after another end.
    pub(crate) fn fail(&mut self, error: Error) {
        self.call(Err(error));
    }

    fn call(&mut self, outcome: Result<Vec<f32>, Error>) {
        let Some(done) = self.done.take() else { return };
        // a callback that panics ends its own request only
        if catch_unwind(AssertUnwindSafe(|| done(outcome))).is_err() {
            tracing::error!("the callback of a request panicked");
        }
    }
}

impl Drop for Values {
    fn drop(&mut self) {
        self.fail(Error::Stopped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wanted_rows_of_chunks() {
        for (wanted, chunks) in [
            (WantedRows::First, [0..1, 1..1, 1..1]),
            (WantedRows::Last, [4..4, 8..8, 9..10]),
            (WantedRows::All, [0..4, 4..8, 8..10]),
        ] {
            let of = [(0, 4), (4, 8), (8, 10)].map(|(first, end)| wanted.of(first, end, 10));
            assert_eq!(of, chunks, "{wanted:?}");
            assert_eq!(wanted.of(0, 1, 1), 0..1);
        }
    }
}
