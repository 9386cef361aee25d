//! Bounds on memory and time for tests of code that reads hostile input.
//!
//! A test or a fuzz target installs [`Counting`] as its allocator and runs each input in
//! [`within`]. An input that needs more than its [`Budget`] panics with a sentence. One that needs
//! far more ends the process: its next allocation fails, or a second thread aborts.
//!
//! ```
//! use pelton_watchdog::{Budget, Counting, within};
//! use std::time::Duration;
//!
//! #[global_allocator]
//! static ALLOCATOR: Counting = Counting::new();
//!
//! let budget = Budget { bytes: 1 << 20, time: Duration::from_millis(100) };
//! let sum = within(budget, "a sum", || (0..1_000_u32).collect::<Vec<_>>().iter().sum::<u32>());
//! assert_eq!(sum, 499_500);
//! ```

// A finding of a test is a panic, and a test that cannot watch its code must not pass.
#![allow(clippy::panic, clippy::expect_used)]

mod allocator;
mod clock;
mod deadline;

use std::time::Duration;

pub use allocator::Counting;

/// How far beyond its budget an input may go before the process ends, as a factor.
const BEYOND: usize = 8;

/// The most that one input may need.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Bytes of the heap, above those at the start, in all threads.
    pub bytes: usize,
    /// CPU time of the calling thread.
    pub time: Duration,
}

impl Budget {
    /// The bound of an input that has no documented bound of its own: 64 MiB and 100 ms.
    #[must_use]
    pub const fn usual() -> Self {
        Self { bytes: 64 << 20, time: Duration::from_millis(100) }
    }
}

/// Runs the code of one input and checks its needs. `input` names the input in a report.
///
/// One run at a time in a process: memory is counted over all threads.
///
/// # Panics
///
/// If the code needs more than its budget, or if [`Counting`] is not the allocator of the process.
pub fn within<T>(budget: Budget, input: &str, run: impl FnOnce() -> T) -> T {
    let deadline = deadline::set(budget.time * BEYOND as u32, input);
    let watched = allocator::watch(budget.bytes.saturating_mul(BEYOND));
    let begun = clock::thread_time();
    let value = run();
    let took = clock::thread_time().saturating_sub(begun);
    drop(deadline);
    let bytes = watched.peak();
    drop(watched);
    assert!(
        bytes <= budget.bytes,
        "{input}: {bytes} bytes of memory, expected at most {}",
        budget.bytes
    );
    assert!(
        took <= budget.time,
        "{input}: {took:?} of CPU time, expected at most {:?}",
        budget.time
    );
    value
}
