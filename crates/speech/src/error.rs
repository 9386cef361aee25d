//! Why decoding failed.

use std::convert::Infallible;

use thiserror::Error;

/// Why decoding failed, over the errors of a [`Recognizer`](crate::Recognizer) and of
/// [`Features`](crate::Features).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error<M, F = Infallible> {
    /// An option is out of its range, or options exclude each other.
    #[error("{0}")]
    Options(String),
    /// The recognizer failed.
    #[error("{0}")]
    Model(M),
    /// The features could not be read.
    #[error("{0}")]
    Features(F),
    /// A callback asked to stop.
    #[error("the transcription was cancelled")]
    Cancelled,
}

impl<M> Error<M> {
    /// The same error where features can fail too.
    pub(crate) fn widen<F>(self) -> Error<M, F> {
        match self {
            Self::Options(text) => Error::Options(text),
            Self::Model(error) => Error::Model(error),
            Self::Features(never) => match never {},
            Self::Cancelled => Error::Cancelled,
        }
    }
}
