//! The threads on which constraints are compiled.
//!
//! A compiler recurses as deep as a constraint nests, and nothing can stop it. So each compilation
//! has a thread of its own with a large stack. Few run at once in the process, and a caller waits
//! for a bounded time. A thread whose caller has left ends by itself, and never keeps the process
//! alive.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::Duration,
};

use web_time::Instant;

use crate::Error;

/// Bytes of a thread's stack: reserved, and taken only as far as a compilation recurses.
const STACK: usize = 512 << 20;
/// Limit of compilations that run at once in the process.
const AT_ONCE: usize = 2;
/// Limit of the time that a compilation takes, and the time that it waits to begin.
pub(crate) const WAIT: Duration = Duration::from_secs(5);

/// The places at which compilations run, and who waits for one.
struct Places {
    taken: usize,
    next_ticket: u64,
    /// Tickets in the order of their arrival.
    waiting: VecDeque<u64>,
}

static PLACES: Mutex<Places> =
    Mutex::new(Places { taken: 0, next_ticket: 0, waiting: VecDeque::new() });
static CHANGED: Condvar = Condvar::new();

fn places() -> MutexGuard<'static, Places> {
    PLACES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A place, until it is dropped.
struct Place;

impl Place {
    /// Waits for a place behind all who came before.
    fn take(deadline: Instant) -> Result<Self, Error> {
        let mut all = places();
        let ticket = all.next_ticket;
        all.next_ticket += 1;
        all.waiting.push_back(ticket);
        while all.taken >= AT_ONCE || all.waiting.front() != Some(&ticket) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                all.waiting.retain(|other| *other != ticket);
                CHANGED.notify_all();
                return Err(Error::Busy);
            }
            all = CHANGED.wait_timeout(all, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        all.waiting.pop_front();
        all.taken += 1;
        CHANGED.notify_all();
        Ok(Self)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        places().taken -= 1;
        CHANGED.notify_all();
    }
}

/// Runs a compilation on a thread of its own, for which it waits at most `wait`, and as long again
/// for its result.
pub(crate) fn run<T: Send + 'static>(
    wait: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    let place = Place::take(Instant::now() + wait)?;
    let (sender, result) = mpsc::sync_channel(1);
    let body = move || {
        let _place = place;
        // a caller that has left takes no result
        let _ = sender.send(work());
    };
    let thread = thread::Builder::new().name("pelton-compile".to_owned()).stack_size(STACK);
    thread.spawn(body).map_err(|_| Error::Busy)?;
    result.recv_timeout(wait).map_err(|_| Error::Slow)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_run_at_once_and_callers_leave_in_time() {
        let (sender, receiver) = mpsc::channel::<()>();
        let receiver = std::sync::Arc::new(Mutex::new(receiver));
        let short = Duration::from_millis(30);
        for _ in 0..AT_ONCE {
            let receiver = std::sync::Arc::clone(&receiver);
            let work = move || receiver.lock().unwrap().recv().unwrap_or_default();
            assert_eq!(run(short, work), Err(Error::Slow));
        }
        assert_eq!(run(short, || 1), Err(Error::Busy));
        drop(sender);
        assert_eq!(run(WAIT, || 2), Ok(2));
    }
}
