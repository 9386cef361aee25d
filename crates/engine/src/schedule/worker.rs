//! The thread of a model: it receives requests, and steps the scheduler.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, TryRecvError},
    },
    thread::{self, JoinHandle, ThreadId},
};

use super::{
    queue::QueueBound, resources::Resources, runner::message, scheduler::Scheduler,
    sequence::Sequence,
};
use crate::{
    Error,
    api::{FinishReason, KeepAlive, Status},
};

/// The state that the thread shares with the handles of its model.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) bound: Arc<QueueBound>,
    status: Mutex<Status>,
    gone: OnceLock<String>,
    unloaded: AtomicBool,
    thread: OnceLock<ThreadId>,
}

impl Shared {
    pub(crate) fn new(bound: Arc<QueueBound>) -> Self {
        Self {
            bound,
            status: Mutex::new(Status::default()),
            gone: OnceLock::new(),
            unloaded: AtomicBool::new(false),
            thread: OnceLock::new(),
        }
    }

    /// The load after the newest step, with the queue of this moment.
    pub(crate) fn status(&self) -> Status {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (status.queued, status.queued_tokens) = self.bound.counts();
        status
    }

    /// Why the model answers no more.
    pub(crate) fn error(&self) -> Error {
        self.gone.get().map_or(Error::Stopped, |reason| Error::Gone(reason.clone()))
    }

    /// Whether the model still answers.
    ///
    /// # Errors
    ///
    /// [`Error::Gone`] if it does not.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.gone.get().is_some() { Err(self.error()) } else { Ok(()) }
    }
}

/// The handle of the thread. Dropping the last one ends all requests and waits for the thread, so
/// that no GPU is at work when the process ends.
#[derive(Debug)]
pub(crate) struct Worker {
    shared: Arc<Shared>,
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
        publish(&shared, &scheduler);
        let own = Arc::clone(&shared);
        Self::start(thread::Builder::new().name("pelton-scheduler".into()), shared, move || {
            run(scheduler, &requests, &own)
        })
    }

    fn start(
        builder: thread::Builder,
        shared: Arc<Shared>,
        run: impl FnOnce() -> Resources + Send + 'static,
    ) -> Result<Self, Error> {
        let handle = builder.spawn(run).map_err(Error::Spawn)?;
        // set before the first request can be submitted
        let _ = shared.thread.set(handle.thread().id());
        Ok(Self { shared, handle: Mutex::new(Some(handle)) })
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
        self.shared.thread.get() == Some(&thread::current().id())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.shared.unloaded.store(true, Ordering::Relaxed);
        let handle = self.handle.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(handle) = handle
            && handle.thread().id() != thread::current().id()
        {
            // a panic of the thread has been reported to its requests
            let _ = handle.join();
        }
    }
}

/// Runs until no handle of the model is left and every request has ended.
fn run(mut scheduler: Scheduler, requests: &Receiver<Box<Sequence>>, shared: &Shared) -> Resources {
    let mut connected = true;
    loop {
        publish(shared, &scheduler);
        if scheduler.is_idle() {
            match requests.recv() {
                Ok(sequence) => scheduler.accept(*sequence),
                Err(_) => return scheduler.resources,
            }
        }
        while connected {
            match requests.try_recv() {
                Ok(sequence) => scheduler.accept(*sequence),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => connected = false,
            }
        }
        if shared.unloaded.load(Ordering::Relaxed) {
            scheduler.end_all(|| Ok(FinishReason::Cancelled));
        }
        let step = catch_unwind(AssertUnwindSafe(|| {
            scheduler.fill();
            // a request is counted as running before its first token is sent
            publish(shared, &scheduler);
            scheduler.take_oldest();
        }));
        if let Err(payload) = step {
            scheduler.give_up(format!("its scheduler panicked: {}", message(&*payload)));
        }
        if let Some(reason) = scheduler.gone() {
            let _ = shared.gone.set(reason.to_owned());
        }
    }
}

fn publish(shared: &Shared, scheduler: &Scheduler) {
    *shared.status.lock().unwrap_or_else(PoisonError::into_inner) = scheduler.status();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_cannot_be_started_is_an_error_with_the_reason() {
        let shared = Arc::new(Shared::new(Arc::new(QueueBound::new(1, 1))));
        // more memory for a stack than there are addresses
        let builder = thread::Builder::new().stack_size(1 << 62);
        let outcome = Worker::start(builder, shared, || panic!("it has not started"));
        assert!(matches!(outcome, Err(Error::Spawn(_))));
    }
}
