//! The thread of a device: it runs the passes that the device before it has run, in their order.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        mpsc::{Receiver, Sender},
    },
};

use pelton_graph::{Error, Executable, Ticket};

use crate::{
    backoff::Backoff,
    relayed_pass::{Missed, RelayedPass},
    tokens::Tokens,
};

/// A job that goes through the devices in turn.
pub(crate) enum Job {
    Pass(Box<RelayedPass>),
    /// A pass that each device profiles too.
    Profile {
        relayed: Box<RelayedPass>,
        passes: usize,
    },
    CopyPages {
        group: usize,
        pages: Vec<[u32; 2]>,
    },
    SaveStates {
        slot: u32,
        snapshot: u32,
    },
    RestoreStates {
        snapshot: u32,
        slot: u32,
    },
    SetAdapters {
        slot: u32,
        adapters: Vec<(u32, f32)>,
    },
}

/// A part of a model on its device.
pub(crate) struct Stage {
    pub(crate) device: String,
    pub(crate) executable: Box<dyn Executable>,
    /// Whether its steps read the tokens of rows. A device before the last does not sample them.
    pub(crate) reads_tokens: bool,
    /// Whether its weights have efforts: other parts are given none.
    has_effort: bool,
    pub(crate) is_last: bool,
    pub(crate) tokens: Arc<Tokens>,
    backoff: Backoff,
    /// Passes that the device can have in flight.
    depth: usize,
    missed: Missed,
    /// The failure of a copy, which the next pass reports.
    failed: Option<Error>,
}

/// A pass that was submitted to the device, or failed.
struct Begun {
    relayed: Box<RelayedPass>,
    ticket: Option<Ticket>,
}

impl Stage {
    pub(crate) fn new(
        device: &str,
        executable: Box<dyn Executable>,
        [reads_tokens, has_effort, is_last]: [bool; 3],
        tokens: Arc<Tokens>,
        backoff: Backoff,
    ) -> Self {
        let (device, missed) = (device.to_owned(), Missed::default());
        let depth = executable.pipeline().depth;
        let failed = None;
        Self {
            device,
            executable,
            reads_tokens,
            has_effort,
            is_last,
            tokens,
            backoff,
            depth,
            missed,
            failed,
        }
    }

    /// Runs jobs until there are no more, and hands each on. A pass begins before the results of
    /// the one before it are taken, where it can: the device computes while the host copies them.
    pub(crate) fn run(mut self, jobs: &Receiver<Job>, next: &Sender<Job>) {
        let (mut begun, mut job): (Option<Begun>, _) = (None, None);
        loop {
            if let Some(before) = begun.take() {
                begun = self.begin_during(&before, jobs, &mut job);
                if next.send(self.finish(before)).is_err() {
                    return;
                }
                continue;
            }
            let Some(own) = job.take().or_else(|| self.backoff.receive(jobs).ok()) else { return };
            match own {
                Job::Pass(relayed) => begun = Some(self.begin(relayed)),
                mut other => {
                    self.job(&mut other);
                    if next.send(other).is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Begins the pass after one that runs, if the next job is a pass and comes in time. A job that
    /// cannot begin yet stays in `job`: a pass may wait for the tokens of the one before it, which
    /// the devices after this one sample.
    fn begin_during(
        &mut self,
        before: &Begun,
        jobs: &Receiver<Job>,
        job: &mut Option<Job>,
    ) -> Option<Begun> {
        let mut looks = self.backoff.looks();
        loop {
            *job = job.take().or_else(|| jobs.try_recv().ok());
            match job.take() {
                Some(Job::Pass(relayed)) if self.overlaps(before, &relayed) => {
                    return Some(self.begin(relayed));
                }
                other => *job = other,
            }
            let waits = self.depth > 1 && matches!(job, None | Some(Job::Pass(_)));
            let runs = before.ticket.is_some_and(|ticket| !self.executable.is_done(ticket));
            if !(waits && runs && looks.again()) {
                return None;
            }
        }
    }

    /// Whether a pass can begin before the results of another one are taken.
    fn overlaps(&self, begun: &Begun, relayed: &RelayedPass) -> bool {
        let known = !self.needs_tokens(relayed) || self.tokens.are_known(relayed.after);
        // a device has room for the logits of one pass
        let free = !(self.is_last && begun.relayed.has_logits() && relayed.has_logits());
        self.depth > 1 && known && free
    }

    fn job(&mut self, job: &mut Job) {
        let outcome = match job {
            Job::Pass(_) => Ok(()),
            Job::Profile { relayed, passes } => {
                let passes = *passes;
                self.pass(relayed, |stage, relayed| stage.profile(relayed, passes));
                return;
            }
            Job::CopyPages { group, pages } => self.executable.copy_pages(*group, pages),
            Job::SaveStates { slot, snapshot } => self.executable.save_states(*slot, *snapshot),
            Job::RestoreStates { snapshot, slot } => {
                self.executable.restore_states(*snapshot, *slot)
            }
            Job::SetAdapters { slot, adapters } => self.executable.set_adapters(*slot, adapters),
        };
        if let Err(error) = outcome {
            self.failed.get_or_insert(error);
        }
    }

    /// Submits a pass, if no device before has failed it.
    fn begin(&mut self, mut relayed: Box<RelayedPass>) -> Begun {
        let ticket = self.submit(&mut relayed, Self::submit_pass);
        Begun { relayed, ticket }
    }

    /// Takes the results of a pass.
    fn finish(&mut self, begun: Begun) -> Job {
        let Begun { mut relayed, ticket } = begun;
        if let Some(ticket) = ticket {
            self.guarded(&mut relayed, |stage, relayed| {
                relayed.keep(&stage.executable.take(ticket)?);
                Ok(())
            });
        }
        self.end(&relayed);
        Job::Pass(relayed)
    }

    /// Runs a pass by itself.
    fn pass(
        &mut self,
        relayed: &mut RelayedPass,
        run: impl FnOnce(&mut Self, &mut RelayedPass) -> Result<(), Error>,
    ) {
        self.submit(relayed, run);
        self.end(relayed);
    }

    /// Calls `run` with the edits of passes that did not run before, if no device before has failed
    /// the pass. Where it does not run, its own edits are made with the next one.
    fn submit<T>(
        &mut self,
        relayed: &mut RelayedPass,
        run: impl FnOnce(&mut Self, &mut RelayedPass) -> Result<T, Error>,
    ) -> Option<T> {
        if let Some(failed) = self.failed.take() {
            relayed.error.get_or_insert(failed);
        }
        let mut ran = None;
        if relayed.error.is_none() {
            relayed.edit_before(std::mem::take(&mut self.missed));
            ran = self.guarded(relayed, run);
        }
        if relayed.error.is_some() {
            // a pass that the device refused may have made none of its edits
            relayed.miss(usize::MAX, &mut self.missed);
        }
        ran
    }

    /// Calls `run`, whose failure is that of the pass.
    fn guarded<T>(
        &mut self,
        relayed: &mut RelayedPass,
        run: impl FnOnce(&mut Self, &mut RelayedPass) -> Result<T, Error>,
    ) -> Option<T> {
        let outcome = catch_unwind(AssertUnwindSafe(|| run(self, relayed)));
        let outcome = outcome.unwrap_or_else(|_| {
            let what = "a panic in a part of the model".to_owned();
            Err(Error::Device { device: self.device.clone(), what })
        });
        outcome.map_err(|error| relayed.error = Some(error)).ok()
    }

    /// Publishes the tokens of a pass that has gone through all devices.
    fn end(&self, relayed: &RelayedPass) {
        if self.is_last {
            let done = relayed.error.is_none();
            self.tokens.finish(relayed.sampled_tokens().filter(|_| done));
        }
    }

    /// Whether a pass reads tokens that the last device samples.
    fn needs_tokens(&self, relayed: &RelayedPass) -> bool {
        self.reads_tokens && !self.is_last && relayed.sampled_rows().next().is_some()
    }

    /// The tokens that a pass reads, once they are known; `None` if it reads none of other devices.
    fn known_tokens(&self, relayed: &RelayedPass) -> Result<Option<Vec<u32>>, Error> {
        if !self.needs_tokens(relayed) {
            return Ok(None);
        }
        let tokens = self.tokens.after(relayed.after, relayed.sampled_rows(), self.backoff);
        tokens.map(Some).ok_or_else(|| {
            Error::Pass("tokens of an earlier pass, which the last device did not run".to_owned())
        })
    }

    fn submit_pass(&mut self, relayed: &mut RelayedPass) -> Result<Ticket, Error> {
        let known = self.known_tokens(relayed)?;
        let (executable, flags) = (&mut self.executable, [self.has_effort, self.is_last]);
        relayed.with_pass(known.as_deref(), flags, |pass| executable.submit(pass))
    }

    /// Measures a pass, and runs it.
    fn profile(&mut self, relayed: &mut RelayedPass, passes: usize) -> Result<(), Error> {
        let known = self.known_tokens(relayed)?;
        let (executable, flags) = (&mut self.executable, [self.has_effort, self.is_last]);
        let profile =
            relayed.with_pass(known.as_deref(), flags, |pass| executable.profile(pass, passes))?;
        relayed.profiles.push(profile);
        let ticket = relayed.with_pass(known.as_deref(), flags, |pass| executable.submit(pass))?;
        relayed.keep(&executable.take(ticket)?);
        Ok(())
    }
}

impl Drop for Stage {
    /// Without the last device no token will come.
    fn drop(&mut self) {
        if self.is_last {
            self.tokens.close();
        }
    }
}
