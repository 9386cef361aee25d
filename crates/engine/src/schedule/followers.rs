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

use super::{
    follower::{Follower, Outcome, Step},
    queue::QueueBound,
};

/// The most threads.
const THREADS_MAX: usize = 8;

/// The work of a thread.
enum Job {
    /// The step of a sequence's follower.
    Step { id: u64, follower: Box<Follower>, step: Step },
    /// The end of a follower, whose memory may take a while to free.
    Free(Box<Follower>),
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
    /// Steps that the calling thread took.
    own: Vec<Done>,
}

impl Followers {
    /// Whether a step was not received yet.
    pub(super) fn are_busy(&self) -> bool {
        self.busy > 0
    }

    /// Lets a sequence's follower take a step on a worker.
    pub(super) fn send(&mut self, id: u64, follower: Box<Follower>, step: Step) {
        self.busy += 1;
        if let Some(Job::Step { id, follower, step }) = self.give(Job::Step { id, follower, step })
        {
            self.own.push(run(id, follower, step));
        }
    }

    /// Lets a sequence's follower take a step at once, on the calling thread. A request in the queue
    /// prevents or stops that: then a worker takes the step.
    pub(super) fn send_alone(
        &mut self,
        id: u64,
        mut follower: Box<Follower>,
        step: Step,
        bound: &QueueBound,
    ) {
        let taken = catch_unwind(AssertUnwindSafe(|| follower.step_alone(&step, bound)));
        let Some(outcome) = taken.unwrap_or_else(|_| Some(panicked())) else {
            return self.send(id, follower, step);
        };
        self.busy += 1;
        self.own.push(Done { id, follower, outcome });
    }

    /// Frees a follower on a worker.
    pub(super) fn free(&mut self, follower: Box<Follower>) {
        drop(self.give(Job::Free(follower)));
    }

    /// Gives a job to the threads, or back if there are none.
    fn give(&mut self, job: Job) -> Option<Job> {
        let (sender, _) = self.threads.get_or_insert_with(start);
        sender.send(job).err().map(|mpsc::SendError(job)| job)
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
            match job {
                Ok(Job::Step { id, follower, step }) => {
                    if results.send(run(id, follower, step)).is_err() {
                        return;
                    }
                }
                Ok(Job::Free(follower)) => drop(follower),
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

fn run(id: u64, mut follower: Box<Follower>, step: Step) -> Done {
    let outcome = catch_unwind(AssertUnwindSafe(|| follower.step(&step)));
    Done { id, follower, outcome: outcome.unwrap_or_else(|_| panicked()) }
}

fn panicked() -> Outcome {
    Outcome::Failed(Error::Stuck("its computation panicked".to_owned()))
}
