//! Worker threads that let followers take their steps while passes run.

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

use super::follower::{Follower, Outcome, Step};

/// The most threads.
const THREADS_MAX: usize = 8;

struct Job {
    id: u64,
    follower: Box<Follower>,
    step: Step,
}

/// A follower that took its step.
pub(super) struct Done {
    /// The sequence.
    pub(super) id: u64,
    pub(super) follower: Box<Follower>,
    pub(super) outcome: Outcome,
}

/// Followers at work. The threads are started with the first of them.
#[derive(Default)]
pub(super) struct Followers {
    threads: Option<(Sender<Job>, Receiver<Done>)>,
    /// Steps that were not received yet.
    busy: usize,
    /// Steps that were taken by the calling thread, for lack of others.
    own: Vec<Done>,
}

impl Followers {
    /// Whether a step was not received yet.
    pub(super) fn are_busy(&self) -> bool {
        self.busy > 0
    }

    /// Lets a sequence's follower take a step: on a worker, or at once on the calling thread where
    /// it would only wait.
    pub(super) fn send(&mut self, id: u64, follower: Box<Follower>, step: Step, at_once: bool) {
        self.busy += 1;
        let job = Job { id, follower, step };
        if at_once {
            return self.own.push(run(job));
        }
        let (sender, _) = self.threads.get_or_insert_with(start);
        if let Err(mpsc::SendError(job)) = sender.send(job) {
            self.own.push(run(job));
        }
    }

    /// The next follower that took its step, if one does within `wait`.
    pub(super) fn receive(&mut self, wait: Duration) -> Option<Done> {
        let done = self.own.pop().or_else(|| {
            let (_, done) = self.threads.as_ref()?;
            done.recv_timeout(wait).ok()
        })?;
        self.busy -= 1;
        Some(done)
    }
}

/// Starts the threads; they end when the sender is dropped.
fn start() -> (Sender<Job>, Receiver<Done>) {
    let (sender, jobs) = mpsc::channel::<Job>();
    let (results, done) = mpsc::channel();
    let jobs = Arc::new(Mutex::new(jobs));
    let threads = thread::available_parallelism().map_or(1, usize::from).div_ceil(2);
    for number in 0..threads.min(THREADS_MAX) {
        let (jobs, results) = (Arc::clone(&jobs), results.clone());
        let work = move || loop {
            let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(job) = job else { return };
            if results.send(run(job)).is_err() {
                return;
            }
        };
        let name = format!("pelton-constraint-{number}");
        if let Err(error) = thread::Builder::new().name(name).spawn(work) {
            tracing::warn!(%error, "a thread for constraints could not be started");
        }
    }
    (sender, done)
}

fn run(Job { id, mut follower, step }: Job) -> Done {
    let outcome = catch_unwind(AssertUnwindSafe(|| follower.step(step)));
    let outcome = outcome
        .unwrap_or_else(|_| Outcome::Failed(Error::Stuck("its computation panicked".to_owned())));
    Done { id, follower, outcome }
}
