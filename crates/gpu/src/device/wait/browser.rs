//! Waits that suspend the calling WebAssembly, which needs an export marked `jspi` below them.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use js_sys::futures::future_to_promise;
use wasm_bindgen::JsValue;

/// A flag that is set once in a while, and a task that waits for it.
#[derive(Debug, Default)]
struct Flag {
    set: AtomicBool,
    waiter: Mutex<Option<Waker>>,
}

impl Flag {
    fn set(&self) {
        self.set.store(true, Ordering::Relaxed);
        let waiter = self.waiter.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }

    /// Whether it is set; if it is not, the task is woken when it is.
    fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.set.load(Ordering::Relaxed) {
            return Poll::Ready(());
        }
        *self.waiter.lock().unwrap_or_else(PoisonError::into_inner) = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.set();
    }
}

/// Runs a future to its end.
#[expect(deprecated, reason = "the mark of an experimental function")]
pub(in crate::device) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        let woken = Arc::new(Flag::default());
        let waker = Waker::from(Arc::clone(&woken));
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let wake = async move {
            poll_fn(|context| woken.poll(context)).await;
            Ok(JsValue::UNDEFINED)
        };
        // the promise is never rejected
        let _ = js_sys::futures::jspi_block_on_promise(&future_to_promise(wake));
    }
}

/// Commands that were submitted.
#[derive(Clone, Debug)]
pub(crate) struct Submission(Arc<Flag>);

impl Submission {
    /// The commands that were submitted until now, and the mappings that were requested.
    pub(in crate::device) fn new(queue: &wgpu::Queue, _: wgpu::SubmissionIndex) -> Self {
        Self::now(queue)
    }

    fn now(queue: &wgpu::Queue) -> Self {
        let flag = Arc::new(Flag::default());
        let done = Arc::clone(&flag);
        queue.on_submitted_work_done(move || done.set());
        Self(flag)
    }
}

/// Whether a submission has ended.
pub(in crate::device) fn has_ended(_: &wgpu::Device, submission: &Submission) -> bool {
    submission.0.set.load(Ordering::Relaxed)
}

/// A browser runs its events only between the calls of a worker.
pub(in crate::device) fn spin(_: &wgpu::Device, _: &Submission) {}

/// Waits for the commands up to a submission, or for all. The browser ends those that take too
/// long.
pub(in crate::device) fn wait(
    _: &wgpu::Device,
    queue: &wgpu::Queue,
    until: Option<&Submission>,
    _: Duration,
) -> Result<(), wgpu::PollError> {
    let submission = until.cloned().unwrap_or_else(|| Submission::now(queue));
    block_on(poll_fn(|context| submission.0.poll(context)));
    Ok(())
}
