//! Waiting without the GIL, with a look at signals and at cancellation now and then.

use std::{
    cell::RefCell,
    ops::ControlFlow,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use pelton::speech::{Control, Observer};
use pelton_hub::Cancel;
use pyo3::prelude::*;

use crate::error::Failure;

/// The time after which a wait looks for signals: Ctrl-C has an effect within it.
pub(crate) const TICK: Duration = Duration::from_millis(50);

thread_local! {
    /// Cancels the call that this thread runs, if a task awaits it.
    static CANCEL: RefCell<Option<Cancel>> = const { RefCell::new(None) };
}

/// Runs a call whose waits end when `cancel` is set.
pub(crate) fn cancellable<T>(cancel: &Cancel, call: impl FnOnce() -> T) -> T {
    let before = CANCEL.replace(Some(cancel.clone()));
    let result = call();
    CANCEL.set(before);
    result
}

/// Calls `poll` without the GIL until it returns a value; it may take as long as it is told.
///
/// # Errors
///
/// The exception of a signal's handler, as `KeyboardInterrupt`; `CancelledError` if
/// the call is cancelled.
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
        if CANCEL.with_borrow(|cancel| cancel.as_ref().is_some_and(Cancel::is_cancelled)) {
            return Err(Failure::from(pelton::Error::Cancelled).raise(py));
        }
    }
}

/// Tells a job that its caller waits no longer.
pub(crate) struct Gone(Cancel);

impl Gone {
    /// [`ControlFlow::Break`] once the caller waits no longer.
    pub(crate) fn flow(&self) -> ControlFlow<()> {
        match self.0.is_cancelled() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    /// The flag, for downloads.
    pub(crate) fn flag(&self) -> &Cancel {
        &self.0
    }
}

impl Control for Gone {
    fn step(&mut self) -> ControlFlow<()> {
        self.flow()
    }
}

impl Observer for Gone {
    fn progress(&mut self, _: usize, _: usize) -> ControlFlow<()> {
        self.flow()
    }
}

/// Sets the flag when it is dropped.
struct Caller(Cancel);

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Runs a job on a thread of its own, and waits for it. After a signal's exception or a
/// cancellation the job goes on until it looks at [`Gone`]; its result is dropped.
///
/// # Errors
///
/// As [`until`]; those of the job.
pub(crate) fn on_thread<T: Send + 'static>(
    py: Python<'_>,
    job: impl FnOnce(&mut Gone) -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    let cancel = Cancel::default();
    let mut gone = Gone(cancel.clone());
    let _caller = Caller(cancel);
    let (sender, receiver) = mpsc::sync_channel(1);
    let run = move || {
        // the caller may be gone
        let _ = sender.send(job(&mut gone));
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
