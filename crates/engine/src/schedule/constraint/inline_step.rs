//! The step of a constraint that the scheduler's thread takes itself, because there is one sequence
//! only. A request that arrives meanwhile stops it after a moment, and a worker takes it again.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use pelton_constraint::Interrupt;
use web_time::Instant;

/// How long an arriving request waits for the step. Almost all take far less, and to stop one costs
/// its sequence the time of following its text again.
const PATIENCE: Duration = Duration::from_millis(5);

#[derive(Debug, Default)]
struct State {
    /// The number of the newest step.
    number: u64,
    /// Stops the step that runs.
    running: Option<Interrupt>,
    is_stopped: bool,
    /// Requests that wait for its end.
    waiting: usize,
}

/// The step that runs on the scheduler's thread, if there is one.
#[derive(Debug, Default)]
pub(crate) struct InlineStep {
    state: Mutex<State>,
    ended: Condvar,
}

impl InlineStep {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a step.
    pub(super) fn begin(&self, interrupt: Interrupt) {
        let mut state = self.lock();
        state.number += 1;
        (state.running, state.is_stopped) = (Some(interrupt), false);
    }

    /// Ends the step. Returns whether it was stopped, so that its result does not count.
    pub(super) fn end(&self) -> bool {
        let mut state = self.lock();
        state.running = None;
        if state.waiting > 0 {
            self.ended.notify_all();
        }
        std::mem::take(&mut state.is_stopped)
    }

    /// Waits a moment for the end of the step that runs, and then stops it.
    pub(crate) fn make_room(&self) {
        let begun = Instant::now();
        let mut state = self.lock();
        let number = state.number;
        while state.running.is_some() && state.number == number {
            let Some(left) = PATIENCE.checked_sub(begun.elapsed()).filter(|left| !left.is_zero())
            else {
                if let Some(interrupt) = state.running.take() {
                    interrupt.stop();
                    state.is_stopped = true;
                }
                return;
            };
            state.waiting += 1;
            state = self.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            state.waiting -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use pelton_constraint::{Compiler, Constraint};

    use super::*;

    #[test]
    fn a_step_that_goes_on_is_stopped_and_a_short_one_is_not() {
        let compiler = Compiler::of_bytes().unwrap();
        let matcher = compiler.compile(&Constraint::Regex("a".into())).unwrap();
        let step = InlineStep::default();
        // nothing runs
        step.make_room();
        step.begin(matcher.copy().interrupt().unwrap());
        thread::scope(|scope| {
            let arrives = scope.spawn(|| step.make_room());
            arrives.join().unwrap();
            assert!(step.end());
            step.begin(matcher.copy().interrupt().unwrap());
            assert!(!step.end());
            step.make_room();
        });
    }
}
