//! The barrier and its waits under every interleaving of their threads, and every value that the
//! memory model lets them read: `RUSTFLAGS="--cfg loom" cargo test -p pelton-cpu --lib loom`.

use std::time::Duration;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::barrier::Barrier;
use super::signal::Signal;
use super::sync::{AtomicUsize, Ordering};

/// Interleavings with up to so many involuntary context switches are explored; most errors need
/// fewer (Musuvathi and Qadeer, "Iterative context bounding", 2007).
const SWITCHES: usize = 3;

fn model(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(SWITCHES);
    builder.check(test);
}

struct Region {
    barrier: Barrier,
    signal: Signal,
    cells: [UnsafeCell<usize>; 2],
}

// SAFETY: loom checks that accesses to the cells are ordered.
unsafe impl Sync for Region {}
// SAFETY: plain data.
unsafe impl Send for Region {}

impl Region {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            barrier: Barrier::new(2),
            signal: Signal::new(),
            cells: [UnsafeCell::new(0), UnsafeCell::new(0)],
        })
    }

    fn barrier(&self) -> bool {
        self.barrier.wait(Duration::ZERO, &self.signal).is_ok()
    }

    /// Each thread writes its cell, and after a barrier reads that of the other, twice.
    fn phases(&self, me: usize) {
        for phase in 1..3 {
            // SAFETY: loom fails if the other thread's reads are not ordered before.
            self.cells[me].with_mut(|cell| unsafe { *cell = phase });
            assert!(self.barrier());
            // SAFETY: loom fails if the other thread's write is not ordered before.
            self.cells[1 - me].with(|cell| assert_eq!(unsafe { *cell }, phase));
            assert!(self.barrier());
        }
    }
}

#[test]
fn a_barrier_orders_the_phases() {
    model(|| {
        let region = Region::new();
        let other = {
            let region = Arc::clone(&region);
            thread::spawn(move || region.phases(1))
        };
        region.phases(0);
        other.join().unwrap();
    });
}

/// A blocked thread is woken however the notification falls into its wait.
#[test]
fn no_notification_is_lost() {
    model(|| {
        let shared = Arc::new((Signal::new(), AtomicUsize::new(0)));
        let waiting = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.0.wait(Duration::ZERO, || shared.1.load(Ordering::Acquire) == 1);
            })
        };
        shared.1.fetch_add(1, Ordering::Release);
        shared.0.notify();
        waiting.join().unwrap();
    });
}

/// A thread at the barrier leaves it when the other panics.
#[test]
fn a_poisoned_barrier_releases_its_threads() {
    model(|| {
        let region = Region::new();
        let other = {
            let region = Arc::clone(&region);
            thread::spawn(move || region.barrier())
        };
        region.barrier.poison(&region.signal);
        assert!(!other.join().unwrap());
    });
}
