//! Awaitable calls: each runs on a thread of its own, so the event loop goes on.

use pelton_hub::Cancel;
use pyo3::{
    prelude::*,
    types::{PyDict, PyTuple},
};

use crate::wait::cancellable;

/// One awaitable call.
#[pyclass(frozen, module = "pelton")]
#[derive(Default)]
pub(crate) struct Call(Cancel);

#[pymethods]
impl Call {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Calls the function, whose waits end when the call is cancelled.
    fn run<'py>(
        &self,
        function: &Bound<'py, PyAny>,
        arguments: &Bound<'py, PyTuple>,
        keywords: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyAny>> {
        cancellable(&self.0, || function.call(arguments, Some(keywords)))
    }

    /// Cancels the call, and with it its requests.
    fn cancel(&self) {
        self.0.cancel();
    }
}

/// The coroutine of a call of the method `name`.
pub(crate) fn awaitable<'py>(
    owner: &Bound<'py, PyAny>,
    name: &str,
    arguments: &Bound<'py, PyTuple>,
    keywords: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = owner.py();
    let keywords = keywords.cloned().unwrap_or_else(|| PyDict::new(py));
    let awaited = py.import("pelton._aio")?.getattr("awaited")?;
    awaited.call1((owner.getattr(name)?, arguments, keywords))
}
