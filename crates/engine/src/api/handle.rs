//! Control of a request that was submitted.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use crate::api::Stats;

/// A handle of a submitted request: it cancels the request and reads its times. Clones are handles
/// of the same request. Dropping it changes nothing.
#[derive(Clone, Debug)]
pub struct RequestHandle {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    cancelled: AtomicBool,
    stats: Mutex<Stats>,
}

impl RequestHandle {
    pub(crate) fn new(stats: Stats) -> Self {
        let shared = Shared { cancelled: AtomicBool::new(false), stats: Mutex::new(stats) };
        Self { shared: Arc::new(shared) }
    }

    /// Cancels the request: it takes part in no pass that is submitted after this, and its pages
    /// become free. The callback receives [`FinishReason::Cancelled`](crate::FinishReason), unless
    /// the text has ended before.
    pub fn cancel(&self) {
        self.shared.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether the request was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.shared.cancelled.load(Ordering::Relaxed)
    }

    /// The sizes and times of the request so far.
    pub fn stats(&self) -> Stats {
        self.shared.stats.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut Stats)) {
        change(&mut self.shared.stats.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
