//! Work that blocks, on a thread of its own.

use std::time::Duration;

use tokio::{sync::Semaphore, time::timeout};

use crate::error::ApiError;

/// Threads for work that blocks.
pub(crate) const BLOCKING_THREADS: usize = 64;
/// Those that requests may take at the same time; loads and log lines have the others.
static PLACES: Semaphore = Semaphore::const_new(48);
/// How long a request waits for a thread.
const WAIT: Duration = Duration::from_secs(30);

/// Runs work that may take longer than a moment, such as encoding a long prompt. A request whose
/// client goes away while it waits for a thread gives its place up.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let Ok(Ok(place)) = timeout(WAIT, PLACES.acquire()).await else {
        return Err(ApiError::unavailable("other requests take all threads"));
    };
    let work = move || {
        // held until the work ends, also if nobody waits for it
        let _place = place;
        work()
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) => Err(ApiError::internal(format!("the request could not be run: {error}"))),
    }
}
