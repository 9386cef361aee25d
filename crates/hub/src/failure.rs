//! Requests that have brought nothing, and whether they may be tried again.

use std::time::Duration;

use ureq::http::HeaderMap;

use crate::error::Error;

/// The longest pause that a host may ask for by `Retry-After`.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// A request that has brought nothing.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    pub(crate) retry: Retry,
}

/// Whether a request may be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    Never,
    /// After a pause that grows.
    Later,
    /// After the pause that the host asked for.
    After(Duration),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, retry: Retry::Never }
    }
}

/// A header as text, if there is one.
pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
