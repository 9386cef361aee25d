//! Audio that comes while it is transcribed.

use std::{
    mem,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use pelton::speech::SAMPLE_RATE;

use crate::fault::Fault;

/// The time after which a thread that waits looks for a cancellation.
pub(crate) const GLANCE: Duration = Duration::from_millis(50);
/// Samples that wait, above which all are taken at once: a model that is late catches up.
const LATE: usize = 5 * SAMPLE_RATE as usize;

#[derive(Default)]
struct Waiting {
    samples: Vec<f32>,
    /// No more come.
    ended: bool,
}

/// The samples of live audio that wait for the model.
#[derive(Default)]
pub(crate) struct Feed {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

impl Feed {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds samples.
    ///
    /// # Errors
    ///
    /// The audio was finished before.
    pub(crate) fn push(&self, samples: &[f32]) -> Result<(), Fault> {
        let mut waiting = self.lock();
        if waiting.ended {
            return Err(Fault::invalid("the audio was finished before, expected no more samples"));
        }
        waiting.samples.extend_from_slice(samples);
        self.changed.notify_all();
        Ok(())
    }

    /// No more samples come.
    pub(crate) fn finish(&self) {
        self.lock().ended = true;
        self.changed.notify_all();
    }

    /// Waits for `step` samples, and returns so many, or all of them if it is late; at the end the
    /// rest, with true. `None` once `cancelled` is set.
    pub(crate) fn take(&self, step: usize, cancelled: &AtomicBool) -> Option<(Vec<f32>, bool)> {
        let mut waiting = self.lock();
        while !cancelled.load(Ordering::Relaxed) {
            let count = waiting.samples.len();
            if count >= step {
                let taken = if count > LATE { count } else { step };
                return Some((waiting.samples.drain(..taken).collect(), false));
            }
            if waiting.ended {
                return Some((mem::take(&mut waiting.samples), true));
            }
            let waited = self.changed.wait_timeout(waiting, GLANCE);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_come_in_steps_and_a_late_reader_gets_all() {
        let (feed, going) = (Feed::default(), AtomicBool::new(false));
        feed.push(&[1.0; 10]).unwrap();
        assert_eq!(feed.take(4, &going), Some((vec![1.0; 4], false)));
        feed.push(&vec![2.0; LATE]).unwrap();
        let (all, ended) = feed.take(4, &going).unwrap();
        assert_eq!((all.len(), all[5], all[6], ended), (LATE + 6, 1.0, 2.0, false));
        feed.push(&[3.0; 5]).unwrap();
        feed.finish();
        assert_eq!(feed.take(4, &going), Some((vec![3.0; 4], false)));
        assert_eq!(feed.take(4, &going), Some((vec![3.0], true)));
        assert!(feed.push(&[4.0]).is_err());
    }

    #[test]
    fn a_cancelled_reader_gets_nothing() {
        let (feed, cancelled) = (Feed::default(), AtomicBool::new(true));
        feed.push(&[1.0; 10]).unwrap();
        assert_eq!(feed.take(4, &cancelled), None);
    }
}
