//! Waits of threads that hand passes to each other: a thread that sleeps wakes late.

use std::{
    sync::mpsc::{Receiver, RecvError, TryRecvError},
    thread,
    time::{Duration, Instant},
};

/// The time of a wait without sleep between GPUs: their part of a token of a large model.
const MOST: Duration = Duration::from_millis(4);
/// The sleep between looks after that, and the time after which a thread looks no longer.
const SLEEP: Duration = Duration::from_micros(200);
const LONGEST: Duration = Duration::from_secs(1);

/// How long a thread looks for what it waits for, before it sleeps. It yields its core between
/// looks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff(Duration);

impl Backoff {
    /// The one of threads whose devices are GPUs, or that of threads that share cores
    /// with a device: no time.
    pub(crate) fn new(of_gpus: bool) -> Self {
        Self(if of_gpus { MOST } else { Duration::ZERO })
    }

    /// Looks until `is_over`, or until the time is over.
    pub(crate) fn wait(self, mut is_over: impl FnMut() -> bool) {
        let begun = Instant::now();
        while begun.elapsed() < self.0 && !is_over() {
            thread::yield_now();
        }
    }

    /// Looks for either of two things.
    pub(crate) fn looks(self) -> Looks {
        Looks { backoff: self, begun: Instant::now() }
    }

    /// Receives from a channel, at first without sleep.
    pub(crate) fn receive<T>(self, from: &Receiver<T>) -> Result<T, RecvError> {
        let mut received = Err(TryRecvError::Empty);
        self.wait(|| {
            received = from.try_recv();
            !matches!(received, Err(TryRecvError::Empty))
        });
        match received {
            Ok(value) => Ok(value),
            Err(TryRecvError::Empty) => from.recv(),
            Err(TryRecvError::Disconnected) => Err(RecvError),
        }
    }
}

/// Looks for either of two things, which no sleep can wait for.
#[derive(Debug)]
pub(crate) struct Looks {
    backoff: Backoff,
    begun: Instant,
}

impl Looks {
    /// Whether to look again, after a pause. Threads without back-off look once.
    pub(crate) fn again(&mut self) -> bool {
        let looked = self.begun.elapsed();
        match looked < self.backoff.0 {
            true => thread::yield_now(),
            false if self.backoff.0.is_zero() || looked > LONGEST => return false,
            false => thread::sleep(SLEEP),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn nothing_is_lost() {
        for backoff in [Backoff::new(false), Backoff::new(true)] {
            let (to, from) = channel();
            let sender = thread::spawn(move || {
                for i in 0..200 {
                    to.send(i).unwrap();
                    if i % 50 == 0 {
                        thread::sleep(2 * MOST);
                    }
                }
            });
            assert!((0..200).all(|i| backoff.receive(&from) == Ok(i)));
            assert_eq!(backoff.receive(&from), Err(RecvError));
            sender.join().unwrap();
        }
    }
}
