//! Work that blocks, on a thread of its own.

use std::time::Duration;

use tokio::{sync::Semaphore, time::timeout};

use crate::error::ApiError;

/// Threads for work that blocks.
pub(crate) const BLOCKING_THREADS: usize = 64;
/// Those that requests may take at the same time; loads and log lines have the others.
static PLACES: Semaphore = Semaphore::const_new(48);
/// Those of them that requests with a constraint may take, so that slow compilations leave threads
/// to other requests.
static COMPILING: Semaphore = Semaphore::const_new(12);
/// How long a request waits for a thread.
const WAIT: Duration = Duration::from_secs(30);

/// Starts a request. One that `compiles` a constraint first waits for a place among those that do.
pub(crate) async fn starting<T: Send + 'static>(
    compiles: bool,
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    if !compiles {
        return blocking(work).await;
    }
    let Ok(Ok(place)) = timeout(WAIT, COMPILING.acquire()).await else {
        return Err(ApiError::unavailable("other requests compile too many constraints"));
    };
    blocking(move || {
        let _place = place;
        work()
    })
    .await
}

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

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc, Mutex,
            atomic::{AtomicBool, AtomicUsize, Ordering},
        },
        thread,
    };

    use super::*;

    /// Compilations that do not end leave threads to other requests, and all of them run in the
    /// end.
    #[tokio::test(flavor = "multi_thread")]
    async fn compilations_leave_threads_to_others() {
        let (is_open, running) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let most = Arc::new(Mutex::new(0));
        let compilations: Vec<_> = (0..100)
            .map(|_| {
                let (is_open, running) = (Arc::clone(&is_open), Arc::clone(&running));
                let most = Arc::clone(&most);
                tokio::spawn(starting(true, move || {
                    let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                    let mut most = most.lock().unwrap();
                    *most = now.max(*most);
                    drop(most);
                    while !is_open.load(Ordering::SeqCst) {
                        thread::sleep(Duration::from_millis(1));
                    }
                    running.fetch_sub(1, Ordering::SeqCst);
                    Ok(())
                }))
            })
            .collect();
        while running.load(Ordering::SeqCst) < 12 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let other = timeout(Duration::from_secs(10), starting(false, || Ok("other"))).await;
        assert!(matches!(other, Ok(Ok("other"))), "no thread is left");
        is_open.store(true, Ordering::SeqCst);
        for compilation in compilations {
            assert!(matches!(compilation.await, Ok(Ok(()))));
        }
        assert_eq!(*most.lock().unwrap(), 12);
    }
}
