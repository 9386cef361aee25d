//! Waiting for a condition: spinning first, then blocked in the operating system.

use std::sync::PoisonError;
use std::time::Duration;

use super::sync::{AtomicUsize, Condvar, Mutex, Ordering, Padded, fence};

/// A waiting thread spins without pause for this long, then yields its core between checks. The
/// thread that it waits for may need the core, where there are more threads than cores.
#[cfg(not(loom))]
const SPIN: Duration = Duration::from_micros(3);

/// Blocks threads until conditions hold that other threads make true.
#[derive(Debug)]
pub(super) struct Signal {
    /// Threads that are blocked, or are about to be.
    sleepers: Padded<AtomicUsize>,
    sleep: Mutex<()>,
    woken: Condvar,
}

impl Signal {
    pub(super) fn new() -> Self {
        Self { sleepers: Padded(AtomicUsize::new(0)), sleep: Mutex::new(()), woken: Condvar::new() }
    }

    /// Waits until `done`, and blocks after `patience`. The thread that makes the condition true
    /// calls [`notify`](Self::notify) afterwards.
    pub(super) fn wait(&self, patience: Duration, done: impl Fn() -> bool) {
        if spin(patience, &done) {
            return;
        }
        // Either this fence comes first or that of `notify`. Either `done` is seen here, or the
        // sleeper is seen there, which then notifies once this thread waits.
        self.sleepers.0.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let mut asleep = self.sleep.lock().unwrap_or_else(PoisonError::into_inner);
        while !done() {
            asleep = self.woken.wait(asleep).unwrap_or_else(PoisonError::into_inner);
        }
        drop(asleep);
        self.sleepers.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Wakes the threads whose conditions the caller has just made true.
    pub(super) fn notify(&self) {
        fence(Ordering::SeqCst);
        if self.sleepers.0.load(Ordering::Relaxed) > 0 {
            drop(self.sleep.lock().unwrap_or_else(PoisonError::into_inner));
            self.woken.notify_all();
        }
    }
}

/// Spins until `done` or for `patience`; returns whether it is done.
#[cfg(not(loom))]
fn spin(patience: Duration, done: impl Fn() -> bool) -> bool {
    for _ in 0..64 {
        if done() {
            return true;
        }
        std::hint::spin_loop();
    }
    let start = std::time::Instant::now();
    loop {
        for _ in 0..16 {
            if done() {
                return true;
            }
            std::hint::spin_loop();
        }
        let waited = start.elapsed();
        if waited > patience {
            return false;
        }
        if waited > SPIN {
            std::thread::yield_now();
        }
    }
}

/// Checks once: loom explores the blocking path, and spinning would add nothing but interleavings.
#[cfg(loom)]
fn spin(_: Duration, done: impl Fn() -> bool) -> bool {
    done()
}
