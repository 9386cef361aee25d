//! Waits of threads that hand passes to each other: a thread that sleeps wakes late.

use std::{
    hint::spin_loop,
    sync::mpsc::{Receiver, RecvError, TryRecvError},
    time::{Duration, Instant},
};

/// The time of a wait without sleep: a GPU's share of a token of a model that is large for it.
const MOST: Duration = Duration::from_micros(500);

/// Calls `is_over` for a short time, until it holds.
pub(crate) fn spin(mut is_over: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_over() && begun.elapsed() < MOST {
        spin_loop();
    }
}

/// Receives from a channel, at first without sleep.
pub(crate) fn receive<T>(from: &Receiver<T>) -> Result<T, RecvError> {
    let mut received = Err(TryRecvError::Empty);
    spin(|| {
        received = from.try_recv();
        !matches!(received, Err(TryRecvError::Empty))
    });
    match received {
        Ok(value) => Ok(value),
        Err(TryRecvError::Empty) => from.recv(),
        Err(TryRecvError::Disconnected) => Err(RecvError),
    }
}
