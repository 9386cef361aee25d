//! Worker threads that let matchers take their steps while passes run.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::Duration,
};

use pelton_constraint::Error;

use super::text_matcher::{MatcherStep, Outcome, TextMatcher};
use crate::schedule::queue::QueueBound;

/// The most threads.
const THREADS_MAX: usize = 8;

/// The work of a thread.
enum Job {
    /// The step of a sequence's matcher.
    Step { id: u64, matcher: Box<TextMatcher>, step: MatcherStep },
    /// The end of a matcher, whose memory may take a while to free.
    Free(Box<TextMatcher>),
}

/// A matcher that took its step.
pub(crate) struct FinishedStep {
    /// The sequence.
    pub(crate) id: u64,
    pub(crate) matcher: Box<TextMatcher>,
    pub(crate) outcome: Outcome,
}

/// MatcherPool at work. The threads are started with the first of them.
#[derive(Default)]
pub(crate) struct MatcherPool {
    threads: Option<(Sender<Job>, Receiver<FinishedStep>)>,
    /// Steps that were not received yet.
    busy: usize,
    /// Steps that the calling thread took.
    own: Vec<FinishedStep>,
}

impl MatcherPool {
    /// Whether a step was not received yet.
    pub(crate) fn are_busy(&self) -> bool {
        self.busy > 0
    }

    /// Lets a sequence's matcher take a step on a worker.
    pub(crate) fn send(&mut self, id: u64, matcher: Box<TextMatcher>, step: MatcherStep) {
        self.busy += 1;
        if let Some(Job::Step { id, matcher, step }) = self.give(Job::Step { id, matcher, step }) {
            self.own.push(run(id, matcher, step));
        }
    }

    /// Lets a sequence's matcher take a step at once, on the calling thread. A request in the queue
    /// prevents or stops that: then a worker takes the step.
    pub(crate) fn step_inline(
        &mut self,
        id: u64,
        mut matcher: Box<TextMatcher>,
        step: MatcherStep,
        bound: &QueueBound,
    ) {
        let taken = catch_unwind(AssertUnwindSafe(|| matcher.step_inline(&step, bound)));
        let Some(outcome) = taken.unwrap_or_else(|_| Some(panicked())) else {
            return self.send(id, matcher, step);
        };
        self.busy += 1;
        self.own.push(FinishedStep { id, matcher, outcome });
    }

    /// Frees a matcher on a worker.
    pub(crate) fn free(&mut self, matcher: Box<TextMatcher>) {
        drop(self.give(Job::Free(matcher)));
    }

    /// Gives a job to the threads, or back if there are none.
    fn give(&mut self, job: Job) -> Option<Job> {
        let (sender, _) = self.threads.get_or_insert_with(start);
        sender.send(job).err().map(|mpsc::SendError(job)| job)
    }

    /// The next matcher that took its step, if one does within `wait`.
    pub(crate) fn receive(&mut self, wait: Duration) -> Option<FinishedStep> {
        let done = self.own.pop().or_else(|| {
            let (_, done) = self.threads.as_ref()?;
            done.recv_timeout(wait).ok()
        })?;
        self.busy -= 1;
        Some(done)
    }
}

/// Starts the threads; they end when the sender is dropped.
fn start() -> (Sender<Job>, Receiver<FinishedStep>) {
    let (sender, jobs) = mpsc::channel::<Job>();
    let (results, done) = mpsc::channel();
    let jobs = Arc::new(Mutex::new(jobs));
    let threads = thread::available_parallelism().map_or(1, usize::from).div_ceil(2);
    for number in 0..threads.min(THREADS_MAX) {
        let (jobs, results) = (Arc::clone(&jobs), results.clone());
        let work = move || loop {
            let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
            match job {
                Ok(Job::Step { id, matcher, step }) => {
                    if results.send(run(id, matcher, step)).is_err() {
                        return;
                    }
                }
                Ok(Job::Free(matcher)) => drop(matcher),
                Err(_) => return,
            }
        };
        let name = format!("pelton-constraint-{number}");
        if let Err(error) = thread::Builder::new().name(name).spawn(work) {
            tracing::warn!(%error, "a thread for constraints could not be started");
        }
    }
    (sender, done)
}

fn run(id: u64, mut matcher: Box<TextMatcher>, step: MatcherStep) -> FinishedStep {
    let outcome = catch_unwind(AssertUnwindSafe(|| matcher.step(&step)));
    FinishedStep { id, matcher, outcome: outcome.unwrap_or_else(|_| panicked()) }
}

fn panicked() -> Outcome {
    Outcome::Failed(Error::Stuck("its computation panicked".to_owned()))
}
