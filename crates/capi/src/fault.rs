//! Why a call fails: a code and a sentence.

use std::fmt::Display;

use crate::status::pelton_status;

/// Why a call fails.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) status: pelton_status,
    pub(crate) text: String,
}

impl Fault {
    pub(crate) fn new(status: pelton_status, text: impl Display) -> Self {
        Self { status, text: text.to_string() }
    }

    /// A pointer that must not be NULL.
    pub(crate) fn null(name: &str) -> Self {
        Self::new(pelton_status::PELTON_NULL, format_args!("{name} is NULL, expected a pointer"))
    }

    /// A value that is not valid.
    pub(crate) fn invalid(text: impl Display) -> Self {
        Self::new(pelton_status::PELTON_INVALID, text)
    }

    /// A handle that another thread uses at this moment.
    pub(crate) fn busy(kind: &str) -> Self {
        let status = pelton_status::PELTON_BUSY;
        Self::new(status, format_args!("another thread uses the {kind}, expected one at a time"))
    }
}

impl From<pelton::Error> for Fault {
    fn from(error: pelton::Error) -> Self {
        Self::new(error.kind().into(), error)
    }
}
