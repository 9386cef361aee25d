//! The events of one request, between the thread that runs the model and those of Python.

use std::{
    collections::VecDeque,
    ops::ControlFlow,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use pelton::Event;

use crate::bell::Wake;

/// Which events wake the thread that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wakes {
    /// Each event.
    Each,
    /// The last one, for a caller that wants them all.
    Last,
}

#[derive(Default)]
struct State {
    events: VecDeque<Event>,
    /// No more events come.
    closed: bool,
    /// The event loop that the next event wakes.
    wake: Option<Wake>,
    armed: bool,
}

/// The events that have come and were not taken.
#[derive(Default)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    changed: Condvar,
}

/// Closes the inbox when the model drops its callback.
struct Filler(Arc<Inbox>);

impl Drop for Filler {
    fn drop(&mut self) {
        self.0.change(true, |state| state.closed = true);
    }
}

impl Inbox {
    /// An inbox, and the callback of a request that fills it.
    pub(crate) fn new(
        wakes: Wakes,
    ) -> (Arc<Self>, impl FnMut(Event) -> ControlFlow<()> + Send + 'static) {
        let inbox = Arc::new(Self::default());
        let filler = Filler(Arc::clone(&inbox));
        let fill = move |event| {
            let wakes_now = wakes == Wakes::Each;
            filler.0.change(wakes_now, |state| state.events.push_back(event));
            ControlFlow::Continue(())
        };
        (inbox, fill)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, wakes: bool, change: impl FnOnce(&mut State)) {
        let wake = {
            let mut state = self.lock();
            change(&mut state);
            if wakes && std::mem::take(&mut state.armed) { state.wake.clone() } else { None }
        };
        if wakes {
            self.changed.notify_all();
        }
        if let Some(wake) = wake {
            wake.ring();
        }
    }

    /// The next event; [`Err`] with whether none comes any more.
    pub(crate) fn take(&self) -> Result<Event, bool> {
        let mut state = self.lock();
        state.events.pop_front().ok_or(state.closed)
    }

    /// Waits for an event that can be taken, or for the end.
    pub(crate) fn wait(&self, most: Duration) {
        let state = self.lock();
        if state.events.is_empty() && !state.closed {
            drop(self.changed.wait_timeout(state, most));
        }
    }

    /// Waits for the last event. Returns whether it has come.
    pub(crate) fn wait_for_end(&self, most: Duration) -> bool {
        let mut state = self.lock();
        if !state.closed {
            let waited = self.changed.wait_timeout(state, most);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.closed
    }

    /// Sets the bell of an event loop.
    pub(crate) fn set_wake(&self, wake: Wake) {
        self.lock().wake = Some(wake);
    }

    /// Lets the next event wake the event loop, once.
    pub(crate) fn arm(&self) {
        let mut state = self.lock();
        state.armed = state.wake.is_some();
    }
}
