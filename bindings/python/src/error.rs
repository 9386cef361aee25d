//! Errors as Python's exceptions.

use pelton::{ErrorKind, speech::AudioError};
use pyo3::{exceptions::PyRuntimeError, prelude::*};

/// An error that is not an exception yet: threads without the GIL make it.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// A class of `pelton._errors`.
    class: &'static str,
    message: String,
}

impl Failure {
    /// An argument that is not valid.
    pub(crate) fn input(message: impl Into<String>) -> Self {
        Self { class: "InvalidInputError", message: message.into() }
    }

    /// A fault of this library.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self { class: "InternalError", message: message.into() }
    }

    /// A use in a process that did not load the model.
    pub(crate) fn forked(message: impl Into<String>) -> Self {
        Self { class: "ForkedError", message: message.into() }
    }

    /// The exception.
    pub(crate) fn raise(self, py: Python<'_>) -> PyErr {
        // files and hubs write parts of it, and a traceback goes to a terminal or a log
        let message = pelton_printable::line(&self.message);
        let class = py.import("pelton._errors").and_then(|module| module.getattr(self.class));
        match class.and_then(|class| class.call1((&*message,))) {
            Ok(exception) => PyErr::from_value(exception),
            Err(_) => PyRuntimeError::new_err(message.into_owned()),
        }
    }
}

fn class_of(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotFound => "NotFoundError",
        ErrorKind::Io => "FileError",
        ErrorKind::InvalidModel => "InvalidModelError",
        ErrorKind::Unsupported => "UnsupportedError",
        ErrorKind::InvalidInput => "InvalidInputError",
        ErrorKind::TooLong => "TooLongError",
        ErrorKind::OutOfMemory => "OutOfMemoryError",
        ErrorKind::Busy => "BusyError",
        ErrorKind::TimedOut => "TimedOutError",
        ErrorKind::Cancelled => "CancelledError",
        ErrorKind::Device => "DeviceError",
        _ => "InternalError",
    }
}

impl From<pelton::Error> for Failure {
    fn from(error: pelton::Error) -> Self {
        Self { class: class_of(error.kind()), message: error.to_string() }
    }
}

impl From<AudioError> for Failure {
    fn from(error: AudioError) -> Self {
        pelton::Error::from(error).into()
    }
}

impl From<pelton::chat::Error> for Failure {
    fn from(error: pelton::chat::Error) -> Self {
        pelton::Error::from(error).into()
    }
}

impl From<pelton_hub::Error> for Failure {
    fn from(error: pelton_hub::Error) -> Self {
        let class = match error {
            pelton_hub::Error::Name { .. } => "InvalidInputError",
            pelton_hub::Error::Cancelled => "CancelledError",
            _ => "DownloadError",
        };
        Self { class, message: error.to_string() }
    }
}
