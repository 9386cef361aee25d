//! The thread of a model: it receives requests, and steps the scheduler. Where there are no
//! threads, `worker_without_threads.rs` takes the place of this file.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::Ordering,
        mpsc::{Receiver, RecvError},
    },
    thread::{self, JoinHandle, ThreadId},
};

use super::steps::{Shared, Steps};
use crate::{
    Error,
    api::KeepAlive,
    schedule::{resources::Resources, runner::message, scheduler::Scheduler, sequence::Sequence},
};

/// The handle of the thread. Dropping the last one ends all requests and waits for the thread, so
/// that no GPU is at work when the process ends.
#[derive(Debug)]
pub(crate) struct Worker {
    shared: Arc<Shared>,
    id: ThreadId,
    /// The thread, which returns the executable and its caches.
    handle: Mutex<Option<JoinHandle<Resources>>>,
}

impl Worker {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// [`Error::Spawn`] with the system's reason.
    pub(crate) fn spawn(
        scheduler: Scheduler,
        requests: Receiver<Box<Sequence>>,
        shared: Arc<Shared>,
    ) -> Result<Self, Error> {
        let steps = Steps::new(scheduler, requests, Arc::clone(&shared));
        let builder = thread::Builder::new().name("pelton-scheduler".into());
        Self::start(builder, shared, move || run(steps))
    }

    fn start(
        builder: thread::Builder,
        shared: Arc<Shared>,
        run: impl FnOnce() -> Resources + Send + 'static,
    ) -> Result<Self, Error> {
        let handle = builder.spawn(run).map_err(Error::Spawn)?;
        let id = handle.thread().id();
        Ok(Self { shared, id, handle: Mutex::new(Some(handle)) })
    }

    /// Waits for a result of a request.
    ///
    /// # Errors
    ///
    /// If no request is left that sends one.
    pub(crate) fn recv<T>(&self, results: &Receiver<T>) -> Result<T, RecvError> {
        results.recv()
    }

    /// Ends all requests and the thread, and returns what it ran them on.
    ///
    /// # Errors
    ///
    /// [`Error::Gone`] if the thread has panicked.
    pub(crate) fn end(mut self) -> Result<Resources, Error> {
        self.shared.unloaded.store(true, Ordering::Relaxed);
        let handle = self.handle.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let outcome = handle.map(JoinHandle::join).ok_or(Error::Stopped)?;
        outcome.map_err(|payload| Error::Gone(message(&*payload)))
    }
}

impl KeepAlive for Worker {
    fn is_own_thread(&self) -> bool {
        self.id == thread::current().id()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.shared.unloaded.store(true, Ordering::Relaxed);
        let handle = self.handle.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(handle) = handle
            && self.id != thread::current().id()
        {
            // a panic of the thread has been reported to its requests
            let _ = handle.join();
        }
    }
}

/// Runs until no handle of the model is left and every request has ended.
fn run(mut steps: Steps) -> Resources {
    loop {
        steps.publish();
        if steps.is_idle() {
            match steps.requests.recv() {
                Ok(sequence) => steps.scheduler.accept(*sequence),
                Err(_) => return steps.scheduler.into_resources(),
            }
        }
        steps.receive();
        steps.step();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::QueueBound;

    #[test]
    fn a_thread_that_cannot_be_started_is_an_error_with_the_reason() {
        let shared = Arc::new(Shared::new(Arc::new(QueueBound::new(1, 1))));
        // more memory for a stack than there are addresses
        let builder = thread::Builder::new().stack_size(1 << 62);
        let outcome = Worker::start(builder, shared, || panic!("it has not started"));
        assert!(matches!(outcome, Err(Error::Spawn(_))));
    }
}
