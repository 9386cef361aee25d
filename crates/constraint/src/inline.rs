//! Compilations where there are no threads: on the caller's.

use std::time::Duration;

use crate::Error;

/// Limit of the time that a compilation takes elsewhere.
pub(crate) const WAIT: Duration = Duration::from_secs(5);

/// Runs a compilation, for as long as it takes.
///
/// # Errors
///
/// None; where there are threads, that of a wait in vain.
pub(crate) fn run<T>(_wait: Duration, work: impl FnOnce() -> T) -> Result<T, Error> {
    Ok(work())
}
