//! The barrier of a region: a generation counter that the last arriving thread advances.

use std::time::Duration;

use super::signal::Signal;
use super::sync::{AtomicBool, AtomicUsize, Ordering, Padded};

/// Another thread of the region panicked and will not arrive.
#[derive(Debug)]
pub(super) struct Poisoned;

/// A reusable barrier for a fixed number of threads.
#[derive(Debug)]
pub(super) struct Barrier {
    threads: usize,
    arrived: Padded<AtomicUsize>,
    /// Number of barriers passed.
    generation: Padded<AtomicUsize>,
    poisoned: AtomicBool,
}

impl Barrier {
    pub(super) fn new(threads: usize) -> Self {
        Self {
            threads,
            arrived: Padded(AtomicUsize::new(0)),
            generation: Padded(AtomicUsize::new(0)),
            poisoned: AtomicBool::new(false),
        }
    }

    /// Prepares a new region, while no thread is in one.
    pub(super) fn reset(&self) {
        self.poisoned.store(false, Ordering::Relaxed);
        self.arrived.0.store(0, Ordering::Relaxed);
    }

    /// Releases the threads that wait for the caller, which panicked.
    pub(super) fn poison(&self, signal: &Signal) {
        self.poisoned.store(true, Ordering::Relaxed);
        signal.notify();
    }

    /// Waits until all threads have arrived: writes of any of them before are visible to all of
    /// them after.
    ///
    /// # Errors
    /// [`Poisoned`] if a thread panicked instead.
    pub(super) fn wait(&self, patience: Duration, signal: &Signal) -> Result<(), Poisoned> {
        let generation = self.generation.0.load(Ordering::Relaxed);
        if self.arrived.0.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.arrived.0.store(0, Ordering::Relaxed);
            self.generation.0.store(generation.wrapping_add(1), Ordering::Release);
            signal.notify();
            return Ok(());
        }
        let passed = || self.generation.0.load(Ordering::Acquire) != generation;
        signal.wait(patience, || passed() || self.poisoned.load(Ordering::Relaxed));
        if passed() { Ok(()) } else { Err(Poisoned) }
    }
}
