//! Waiting without the GIL, with a look at signals now and then.

use std::{
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use pyo3::prelude::*;

use crate::error::Failure;

/// The time after which a wait looks for signals: Ctrl-C has an effect within it.
pub(crate) const TICK: Duration = Duration::from_millis(50);

/// Calls `poll` without the GIL until it returns a value; it may take as long as it is told.
///
/// # Errors
///
/// The exception of a signal's handler, as `KeyboardInterrupt`.
pub(crate) fn until<T: Send>(
    py: Python<'_>,
    mut poll: impl FnMut(Duration) -> Option<T> + Send,
) -> PyResult<T> {
    loop {
        let found = py.detach(|| poll(TICK));
        if let Some(value) = found {
            return Ok(value);
        }
        py.check_signals()?;
    }
}

/// Runs a job that cannot be interrupted on a thread of its own, and waits for it. After a signal's
/// exception the job goes on to its end unless it looks at a flag of its own; its result is dropped.
///
/// # Errors
///
/// As [`until`]; those of the job.
pub(crate) fn on_thread<T: Send + 'static>(
    py: Python<'_>,
    job: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let run = move || {
        // the caller may have been interrupted
        let _ = sender.send(job());
    };
    thread::Builder::new().name("pelton-python".to_owned()).spawn(run)?;
    let outcome = until(py, move |tick| match receiver.recv_timeout(tick) {
        Ok(outcome) => Some(outcome),
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) => {
            Some(Err(Failure::internal("the call panicked: its message is on standard error")))
        }
    })?;
    outcome.map_err(|failure| failure.raise(py))
}
