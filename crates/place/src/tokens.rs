//! The sampled tokens, which the last device knows and the first one reads.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use pelton_graph::RECENT;

use crate::backoff::Backoff;

/// The newest sampled tokens of each slot, and the number of passes whose tokens are known.
#[derive(Debug)]
pub(crate) struct Tokens {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// `[slots, RECENT]`: the token of position `p` is at `p % RECENT`.
    ring: Vec<u32>,
    /// Passes that have gone through all devices.
    done: u64,
    /// Whether no further pass will.
    is_closed: bool,
}

impl Tokens {
    pub(crate) fn new(slots: usize) -> Self {
        let state = State { ring: vec![0; slots * RECENT], done: 0, is_closed: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the tokens `(slot, position, token)` of a pass that has gone through all devices.
    pub(crate) fn finish(&self, tokens: impl Iterator<Item = (u32, u32, u32)>) {
        let mut state = self.lock();
        for (slot, position, token) in tokens {
            state.ring[at(slot, position)] = token;
        }
        state.done += 1;
        self.changed.notify_all();
    }

    /// Ends all waits.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Whether so many passes have gone through all devices.
    pub(crate) fn are_known(&self, passes: u64) -> bool {
        self.lock().done >= passes
    }

    /// The tokens of slots at positions, once `passes` passes have gone through all devices;
    /// `None` if they never will.
    pub(crate) fn after(
        &self,
        passes: u64,
        wanted: impl Iterator<Item = (u32, u32)>,
        backoff: Backoff,
    ) -> Option<Vec<u32>> {
        backoff.wait(|| {
            let state = self.lock();
            state.done >= passes || state.is_closed
        });
        let mut state = self.lock();
        while state.done < passes && !state.is_closed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.done < passes {
            return None;
        }
        Some(wanted.map(|(slot, position)| state.ring[at(slot, position)]).collect())
    }
}

fn at(slot: u32, position: u32) -> usize {
    slot as usize * RECENT + position as usize % RECENT
}
