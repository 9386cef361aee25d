//! The steps of a model's scheduler, and the state that they share with the handles of the model.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, TryRecvError},
    },
};

use super::{queue::QueueBound, runner::message, scheduler::Scheduler, sequence::Sequence};
use crate::{
    Error,
    api::{FinishReason, Status},
};

/// The state that the thread shares with the handles of its model.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) bound: Arc<QueueBound>,
    status: Mutex<Status>,
    gone: OnceLock<String>,
    pub(super) unloaded: AtomicBool,
}

impl Shared {
    pub(crate) fn new(bound: Arc<QueueBound>) -> Self {
        Self {
            bound,
            status: Mutex::new(Status::default()),
            gone: OnceLock::new(),
            unloaded: AtomicBool::new(false),
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

    fn publish(&self, scheduler: &Scheduler) {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = scheduler.status();
    }
}

/// A scheduler and the requests that it receives.
pub(super) struct Steps {
    pub(super) scheduler: Scheduler,
    pub(super) requests: Receiver<Box<Sequence>>,
    shared: Arc<Shared>,
    /// Whether a handle of the model is left.
    connected: bool,
}

impl Steps {
    pub(super) fn new(
        scheduler: Scheduler,
        requests: Receiver<Box<Sequence>>,
        shared: Arc<Shared>,
    ) -> Self {
        let mut steps = Self { scheduler, requests, shared, connected: true };
        steps.publish();
        steps
    }

    /// Whether there is nothing to do before the next request.
    pub(super) fn is_idle(&self) -> bool {
        self.scheduler.is_idle()
    }

    /// Accepts the requests that have come.
    pub(super) fn receive(&mut self) {
        while self.connected {
            match self.requests.try_recv() {
                Ok(sequence) => self.scheduler.accept(*sequence),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => self.connected = false,
            }
        }
    }

    /// Submits passes, and takes the results of the oldest.
    pub(super) fn step(&mut self) {
        let Self { scheduler, shared, .. } = self;
        if shared.unloaded.load(Ordering::Relaxed) {
            scheduler.end_all(|| Ok(FinishReason::Cancelled));
        }
        let step = catch_unwind(AssertUnwindSafe(|| {
            scheduler.schedule();
            // a request is counted as running before its first token is sent
            shared.publish(scheduler);
            scheduler.postprocess();
        }));
        if let Err(payload) = step {
            scheduler.give_up(format!("its scheduler panicked: {}", message(&*payload)));
        }
        if let Some(reason) = scheduler.gone() {
            let _ = shared.gone.set(reason.to_owned());
        }
    }

    /// Tells the handles of the model the load, and routers the pages that are cached.
    pub(super) fn publish(&mut self) {
        self.scheduler.send_reports();
        self.shared.publish(&self.scheduler);
    }
}
