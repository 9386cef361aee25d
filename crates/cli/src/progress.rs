//! A progress bar on standard error.

use std::{
    io::{IsTerminal, stderr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pelton::RequestHandle;

/// Time without a bar: what takes less needs none.
const DELAY: Duration = Duration::from_secs(1);
/// Time between drawings.
const TICK: Duration = Duration::from_millis(200);

/// Units that are done and all of them. Only the drawing thread touches the terminal, so that a
/// measured thread never waits for it.
#[derive(Default)]
struct Counts {
    done: AtomicU64,
    all: AtomicU64,
}

/// A bar that appears on a terminal after a second, and disappears when it is dropped.
pub(crate) struct Progress {
    counter: Counter,
    drawing: Option<(Sender<()>, JoinHandle<()>)>,
}

/// Counts the units of a [`Progress`], on any thread. One that is not of a `Progress` is not shown.
#[derive(Clone, Default)]
pub(crate) struct Counter(Arc<Counts>);

impl Counter {
    /// Adds units that are done.
    pub(crate) fn add(&self, done: u64) {
        self.0.done.fetch_add(done, Ordering::Relaxed);
    }

    /// Sets the units that are done and all of them.
    pub(crate) fn set(&self, done: u64, all: u64) {
        self.0.done.store(done, Ordering::Relaxed);
        self.0.all.store(all, Ordering::Relaxed);
    }
}

impl Progress {
    /// A bar of `all` units, in indicatif's template.
    pub(crate) fn new(template: &'static str, all: u64) -> Self {
        let counter = Counter::default();
        counter.set(0, all);
        Self::drawn(template, counter, |_| {})
    }

    /// A bar of the tokens of a request's prompt.
    pub(crate) fn of_prompt(request: &RequestHandle) -> Self {
        let request = request.clone();
        let template = "reading the prompt {bar:32} {pos} of {len} tokens, {eta} left";
        Self::drawn(template, Counter::default(), move |counter| {
            let stats = request.stats();
            counter.set(stats.prefilled_tokens as u64, stats.prompt_tokens as u64);
        })
    }

    /// A bar of a counter, which `update` sets before each drawing.
    fn drawn(
        template: &'static str,
        counter: Counter,
        update: impl Fn(&Counter) + Send + 'static,
    ) -> Self {
        let (counts, shown) = (counter.clone(), Arc::clone(&counter.0));
        let drawing = stderr().is_terminal().then(|| {
            let (sender, receiver) = mpsc::channel();
            let update = move || update(&counts);
            (sender, thread::spawn(move || draw(template, &shown, update, &receiver)))
        });
        Self { counter, drawing }
    }

    /// The counter of its units.
    pub(crate) fn counter(&self) -> &Counter {
        &self.counter
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.drawing.take() {
            drop(stop);
            // a panic in it has no consequence but a missing bar
            let _ = thread.join();
        }
    }
}

/// Draws the bar from [`DELAY`] on, until the sender is dropped.
fn draw(template: &str, counts: &Counts, update: impl Fn(), stop: &Receiver<()>) {
    let timeout = |time| stop.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
    if !timeout(DELAY) {
        return;
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    loop {
        update();
        bar.set_length(counts.all.load(Ordering::Relaxed));
        bar.set_position(counts.done.load(Ordering::Relaxed));
        if !timeout(TICK) {
            break;
        }
    }
    bar.finish_and_clear();
}
