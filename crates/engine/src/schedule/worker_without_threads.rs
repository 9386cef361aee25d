//! The worker of a model where there are no threads.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::Ordering,
        mpsc::{Receiver, RecvError, TryRecvError},
    },
};

use super::steps::{Shared, Steps};
use crate::{
    Error,
    api::KeepAlive,
    schedule::{resources::Resources, scheduler::Scheduler, sequence::Sequence},
};

/// The scheduler, whose steps the reader of a stream takes.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    steps: Mutex<Option<Steps>>,
}

impl Worker {
    /// A worker that waits for requests.
    ///
    /// # Errors
    ///
    /// None. The worker with a thread may fail to start it.
    pub(crate) fn spawn(
        scheduler: Scheduler,
        requests: Receiver<Box<Sequence>>,
        shared: Arc<Shared>,
    ) -> Result<Self, Error> {
        let steps = Steps::new(scheduler, requests, Arc::clone(&shared));
        Ok(Self { shared, steps: Mutex::new(Some(steps)) })
    }

    /// Steps the model until there is a result of a request.
    ///
    /// # Errors
    ///
    /// If no request is left that sends one.
    pub(crate) fn recv<T>(&self, results: &Receiver<T>) -> Result<T, RecvError> {
        loop {
            match results.try_recv() {
                Ok(result) => return Ok(result),
                Err(TryRecvError::Disconnected) => return Err(RecvError),
                Err(TryRecvError::Empty) => self.step(),
            }
        }
    }

    /// Ends all requests, and returns what they ran on.
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`] if it was ended before.
    pub(crate) fn end(mut self) -> Result<Resources, Error> {
        self.shared.unloaded.store(true, Ordering::Relaxed);
        let steps = self.steps.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let mut steps = steps.ok_or(Error::Stopped)?;
        steps.receive();
        while !steps.is_idle() {
            steps.step();
        }
        Ok(steps.scheduler.into_resources())
    }
}

impl KeepAlive for Worker {
    fn is_own_thread(&self) -> bool {
        // a callback runs within a step, which holds the lock
        self.steps.try_lock().is_err()
    }

    fn step(&self) {
        if let Ok(mut steps) = self.steps.try_lock()
            && let Some(steps) = steps.as_mut()
        {
            steps.receive();
            steps.step();
            steps.publish();
        }
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("shared", &self.shared).finish_non_exhaustive()
    }
}
