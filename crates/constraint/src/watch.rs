//! The bound of the time of one step of a matcher.
//!
//! The limits of the parser count most of the work of a step. They count neither a text that is
//! forced without an end within one terminal, nor the comparisons within a row of items. So a
//! thread of the process watches the steps that run, and cancels one that goes on for too long. The
//! thread counts its own wake-ups, not the time of a clock, so that a process that was suspended
//! loses no text.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use llguidance::CancellationHandle;

/// The time between two wake-ups of the thread while steps run.
const TICK: Duration = Duration::from_millis(25);
/// Wake-ups after which a step is cancelled: a second. A step takes microseconds, and some
/// 10 ms where it uses up the limits of the parser; the rest is for machines with too much to do.
const TICKS_MAX: u32 = 40;
/// Wake-ups without any step after which the thread sleeps until there is one.
const IDLE_TICKS: u32 = 8;

/// A step that runs.
struct Running {
    id: u64,
    handle: CancellationHandle,
    /// Wake-ups that it has seen.
    ticks: u32,
}

/// The steps that run, and the state of the thread.
struct Steps {
    next_id: u64,
    running: Vec<Running>,
    has_thread: bool,
    /// Whether the thread sleeps until it is notified.
    sleeps: bool,
    /// Wake-ups since the last step began.
    idle_ticks: u32,
}

static STEPS: Mutex<Steps> = Mutex::new(Steps {
    next_id: 0,
    running: Vec::new(),
    has_thread: false,
    sleeps: false,
    idle_ticks: 0,
});
static BEGUN: Condvar = Condvar::new();

fn steps() -> MutexGuard<'static, Steps> {
    STEPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A step that is watched until it is dropped.
pub(crate) struct Watched {
    id: u64,
}

impl Watched {
    /// Watches a step that the handle cancels.
    pub(crate) fn begin(handle: &CancellationHandle) -> Self {
        let mut steps = steps();
        let id = steps.next_id;
        steps.next_id += 1;
        steps.idle_ticks = 0;
        steps.running.push(Running { id, handle: handle.clone(), ticks: 0 });
        if !steps.has_thread {
            // without a thread the limits of the parser alone bound the step
            let thread = thread::Builder::new().name("pelton-watch".to_owned());
            steps.has_thread = thread.spawn(watch).is_ok();
        } else if steps.sleeps {
            BEGUN.notify_one();
        }
        Self { id }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        steps().running.retain(|step| step.id != self.id);
    }
}

/// Counts wake-ups, and cancels the steps that saw too many.
fn watch() {
    let mut steps = steps();
    loop {
        steps.sleeps = steps.idle_ticks >= IDLE_TICKS && steps.running.is_empty();
        steps = match steps.sleeps {
            true => BEGUN.wait(steps).unwrap_or_else(PoisonError::into_inner),
            false => BEGUN.wait_timeout(steps, TICK).unwrap_or_else(PoisonError::into_inner).0,
        };
        steps.idle_ticks = steps.idle_ticks.saturating_add(1);
        for step in &mut steps.running {
            step.ticks += 1;
            if step.ticks > TICKS_MAX {
                step.handle.cancel();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_step_that_goes_on_is_cancelled_and_others_are_not() {
        for _ in 0..2 {
            let (long, short) = (CancellationHandle::default(), CancellationHandle::default());
            let watched = Watched::begin(&long);
            let begun = Instant::now();
            while !long.is_cancelled() {
                assert!(begun.elapsed() < 20 * TICK * TICKS_MAX);
                drop(Watched::begin(&short));
                thread::sleep(TICK / 4);
            }
            // the thread may wake up late, never early
            assert!(begun.elapsed() >= TICK * (TICKS_MAX - 1));
            assert!(!short.is_cancelled());
            drop(watched);
            // the thread sleeps meanwhile, and notices the next
            thread::sleep(TICK * (IDLE_TICKS + 8));
        }
    }
}
