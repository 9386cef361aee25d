//! The executable, with panics turned into errors.
//!
//! A pass that fails, in `submit` or in `take`, fails the requests in it and nothing else. After
//! three failed passes in a row the model is given up.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use pelton_graph::{Executable, Outputs, Pass, Pipeline, Profile, Sample, Ticket};
use pelton_weights::MappedFiles;

use crate::{Error, files::FileWatch};

/// An executable whose failures, panics included, are sentences.
pub(crate) struct Runner {
    executable: Box<dyn Executable>,
    pub(crate) pipeline: Pipeline,
    /// The files whose bytes it reads.
    files: FileWatch,
    /// Passes that were submitted and not taken.
    tickets: Vec<Ticket>,
}

impl Runner {
    /// An executable of a model with these files.
    pub(crate) fn new(executable: Box<dyn Executable>, files: &MappedFiles) -> Self {
        let pipeline = executable.pipeline();
        let files = FileWatch::of(&*executable, files);
        Self { executable, pipeline, files, tickets: Vec::new() }
    }

    /// The files whose bytes it reads.
    pub(crate) fn files(&self) -> &MappedFiles {
        self.files.files()
    }

    /// Whether the files are those that were loaded, which the system is asked for.
    pub(crate) fn check_files(&mut self) -> Result<(), Error> {
        self.files.check_now()
    }

    /// Makes the two executables partners, whose passes read each other's tokens and hidden states.
    /// Returns whether their backend has such.
    pub(crate) fn pair(&mut self, other: &mut Self) -> bool {
        match (self.executable.shared(), other.executable.shared()) {
            (Some(own), Some(others)) => self.executable.pair(others) && other.executable.pair(own),
            _ => false,
        }
    }

    /// Starts a pass.
    pub(crate) fn submit(&mut self, pass: &Pass<'_>) -> Result<Ticket, Error> {
        let executable = &mut self.executable;
        let ticket = guard(|| executable.submit(pass))?;
        self.tickets.push(ticket);
        Ok(ticket)
    }

    /// Draws the token of the newest pass, which was submitted without its draw.
    pub(crate) fn draw(
        &mut self,
        ticket: Ticket,
        sample: Option<&Sample<'_>>,
    ) -> Result<(), Error> {
        guard(|| self.executable.draw(ticket, sample))
    }

    /// Copies the recurrent states of a slot to a snapshot, after all submitted passes.
    pub(crate) fn save_states(&mut self, slot: u32, snapshot: u32) -> Result<(), Error> {
        guard(|| self.executable.save_states(slot, snapshot))
    }

    /// Copies a snapshot to the recurrent states of a slot, after all submitted passes.
    pub(crate) fn restore_states(&mut self, snapshot: u32, slot: u32) -> Result<(), Error> {
        guard(|| self.executable.restore_states(snapshot, slot))
    }

    /// Sets the LoRA adapters of a slot, for all passes that are submitted later.
    pub(crate) fn set_adapters(&mut self, slot: u32, loras: &[(u32, f32)]) -> Result<(), Error> {
        guard(|| self.executable.set_adapters(slot, loras))
    }

    /// Waits for the oldest pass. Its results are none if a file of the model has changed.
    pub(crate) fn take(&mut self, ticket: Ticket) -> Result<Outputs<'_>, Error> {
        self.tickets.retain(|&other| other != ticket);
        let Self { executable, files, .. } = self;
        let outputs = guard(|| executable.take(ticket));
        files.check()?;
        outputs
    }

    /// Waits for all passes and drops their results.
    pub(crate) fn drain(&mut self) {
        for ticket in std::mem::take(&mut self.tickets) {
            // the results, or the reason that there are none, belong to nobody
            let _ = guard(|| self.executable.take(ticket).map(drop));
        }
    }

    /// The share of the weights of marked matrices that rows below 1 have multiplied.
    pub(crate) fn live_share(&self) -> Option<f64> {
        self.executable.live_share()
    }

    /// Runs a pass many times.
    pub(crate) fn profile(&mut self, pass: &Pass<'_>, passes: usize) -> Result<Profile, Error> {
        Ok(self.executable.profile(pass, passes)?)
    }
}

fn guard<T>(run: impl FnOnce() -> Result<T, pelton_graph::Error>) -> Result<T, Error> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => result.map_err(|error| Error::Pass(error.to_string())),
        Err(payload) => Err(Error::Pass(format!("a pass panicked: {}", message(&*payload)))),
    }
}

/// The message of a panic.
pub(crate) fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a value that is no text".to_owned())
}
