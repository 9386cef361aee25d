//! The thread of a device: it runs the passes that the device before it has run, in their order.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        mpsc::{Receiver, Sender},
    },
};

use pelton_graph::{Error, Executable};

use crate::{
    flight::{Flight, Missed},
    tokens::Tokens,
};

/// A job that goes through the devices in turn.
pub(crate) enum Job {
    Pass(Box<Flight>),
    /// A pass that each device profiles too.
    Profile {
        flight: Box<Flight>,
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
    missed: Missed,
    /// The failure of a copy, which the next pass reports.
    failed: Option<Error>,
}

impl Stage {
    pub(crate) fn new(
        device: &str,
        executable: Box<dyn Executable>,
        [reads_tokens, has_effort, is_last]: [bool; 3],
        tokens: Arc<Tokens>,
    ) -> Self {
        let (device, missed) = (device.to_owned(), Missed::default());
        Self { device, executable, reads_tokens, has_effort, is_last, tokens, missed, failed: None }
    }

    /// Runs jobs until there are no more, and hands each on.
    pub(crate) fn run(mut self, jobs: &Receiver<Job>, next: &Sender<Job>) {
        while let Ok(mut job) = jobs.recv() {
            self.job(&mut job);
            if next.send(job).is_err() {
                break;
            }
        }
    }

    fn job(&mut self, job: &mut Job) {
        let outcome = match job {
            Job::Pass(flight) => return self.pass(flight, None),
            Job::Profile { flight, passes } => return self.pass(flight, Some(*passes)),
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

    fn pass(&mut self, flight: &mut Flight, profiled: Option<usize>) {
        if let Some(failed) = self.failed.take() {
            flight.error.get_or_insert(failed);
        }
        if flight.error.is_none() {
            flight.edit_before(std::mem::take(&mut self.missed));
            let outcome = catch_unwind(AssertUnwindSafe(|| self.run_pass(flight, profiled)));
            flight.error = outcome
                .unwrap_or_else(|_| {
                    let what = "a panic in a part of the model".to_owned();
                    Err(Error::Device { device: self.device.clone(), what })
                })
                .err();
        }
        if flight.error.is_some() {
            // a pass that the device refused may have made none of its edits
            flight.miss(usize::MAX, &mut self.missed);
        }
        if self.is_last {
            let done = flight.error.is_none();
            self.tokens.finish(flight.sampled_tokens().filter(|_| done));
        }
    }

    fn run_pass(&mut self, flight: &mut Flight, profiled: Option<usize>) -> Result<(), Error> {
        let mut known = None;
        let reads = self.reads_tokens && !self.is_last;
        if reads && flight.sampled_rows().next().is_some() {
            let tokens = self.tokens.after(flight.after, flight.sampled_rows());
            known = Some(tokens.ok_or_else(|| {
                Error::Pass(
                    "tokens of an earlier pass, which the last device did not run".to_owned(),
                )
            })?);
        }
        let executable = &mut self.executable;
        let (known, flags) = (known.as_deref(), [self.has_effort, self.is_last]);
        if let Some(passes) = profiled {
            let profile =
                flight.with_pass(known, flags, |pass| executable.profile(pass, passes))?;
            flight.profiles.push(profile);
        }
        let ticket = flight.with_pass(known, flags, |pass| executable.submit(pass))?;
        flight.keep(&executable.take(ticket)?);
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
