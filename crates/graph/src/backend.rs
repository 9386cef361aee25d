//! The two traits of a backend: one loads a plan, the other runs passes over it.
//!
//! [`Executable::pipeline`] describes an executable to the scheduler. It has the passes in flight
//! (1 on the CPU, 3 on a GPU), and the greatest useful repeat (1 and 32). It says whether both
//! phases give the same bits, and up to how many rows a decoding pass is exact.
//!
//! Recurrent states belong to the newest position of their slot. `save_states` and `restore_states`
//! copy them to and from snapshots, in the order of submitted passes.

use std::{any::Any, sync::Arc};

use pelton_weights::Checkpoint;

use crate::{
    EffortForm, Error, Limits, Needs, Op, Outputs, Pass, Plan, Profile, Ranking, Rates, Sample,
    Ticket,
};

/// A CPU or a GPU, on which plans are loaded.
///
/// A backend names the ops that it can run by [`accepts`](Self::accepts). The caller fuses the
/// steps of a plan accordingly ([`Plan::fuse`]) and passes the plan to [`load`](Self::load). The
/// returned [`Executable`] owns all memory of the plan.
pub trait Backend: Send + Sync {
    /// The name in messages: `cpu`, or the name of a GPU.
    fn name(&self) -> &str;

    /// Whether it can run an op of a plan, with the plan's weights, buffers and caches.
    ///
    /// [`Plan::fuse`] calls it for each fused op that a sequence of steps could become, and
    /// [`Plan::check_accepted`] for each op of a plan that is loaded.
    fn accepts(&self, op: &Op, plan: &Plan) -> bool;

    /// Whether rows of its passes can have an [`Effort`](crate::Effort) below 1 in a form, in plans
    /// whose weights are [marked](crate::Weight::marked) for it.
    fn has_effort(&self, form: EffortForm) -> bool {
        let _ = form;
        false
    }

    /// Bytes that it keeps of a plan's marked weights next to their matrices in the file's order.
    fn effort_bytes(&self, plan: &Plan) -> u64 {
        let _ = plan;
        0
    }

    /// The bytes that [`load`](Self::load) allocates for a plan.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load) for limits that it refuses.
    fn needs(&self, plan: &Plan, limits: &Limits) -> Result<Needs, Error>;

    /// Bytes that a load may allocate at this time. `None` if the backend has no such measurement.
    fn budget(&self) -> Option<u64> {
        None
    }

    /// The hardware, driver and threads on which its [rates](Self::measure_rates) depend. `None` if
    /// they are not measured, as of a driver in software.
    fn rates_key(&self) -> Option<String> {
        None
    }

    /// Measures its rates, which takes about a second.
    ///
    /// # Errors
    ///
    /// [`Error::Device`] if the backend fails, or has no rates.
    fn measure_rates(&self) -> Result<Rates, Error> {
        Err(Error::Device {
            device: self.name().to_owned(),
            what: "its rates are not measured".into(),
        })
    }

    /// The most rows of a pass where the caller of [`load`](Self::load) has no number of its own.
    /// They suffice for the speed of long prompts, and their buffers are small next to the part of
    /// the [budget](Self::budget) that `weights` bytes of weights leave.
    fn prompt_rows(&self, plan: &Plan, weights: u64) -> usize {
        let _ = (plan, weights);
        512
    }

    /// Whether each pass over a prompt streams weights to it, however few rows the pass has.
    fn streams_weights(&self) -> bool {
        false
    }

    /// Prepares a plan to run: lays out the weights in the backend's memory, and allocates buffers
    /// and caches. `progress` is called repeatedly with the loaded bytes and the total of bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Op`] if the plan has an op that is not [accepted](Self::accepts), [`Error::Memory`]
    /// or [`Error::LoadMemory`] if there is not enough memory. Other errors if a weight differs
    /// from the plan or the backend fails.
    fn load(
        &self,
        plan: Plan,
        checkpoint: Arc<Checkpoint>,
        limits: Limits,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Box<dyn Executable>, Error>;

    /// Whether a plan can have [parts](Plan::host) whose weights stay in the host's memory.
    fn has_host_parts(&self) -> bool {
        false
    }

    /// Loads a plan with parts of the host: in decoding passes their values come from the
    /// executables of `host`, one for each, whose [entry](Plan::entry) and
    /// [exit](Plan::exit) are those of the part. In all other passes the device runs them,
    /// with weights that the host streams to it.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load). [`Error::Placement`] if the device has no such parts, or if there
    /// are more or fewer executables.
    fn load_with_host(
        &self,
        plan: Plan,
        checkpoint: Arc<Checkpoint>,
        limits: Limits,
        host: HostExecutables,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Box<dyn Executable>, Error> {
        if host.parts.is_empty() {
            return self.load(plan, checkpoint, limits, progress);
        }
        Err(Error::Placement(format!(
            "{} feed-forwards in RAM next to '{}', which can have none",
            host.parts.len(),
            self.name()
        )))
    }
}

/// The parts of a plan on the host, next to a device, for [`Backend::load_with_host`].
#[derive(Default)]
pub struct HostExecutables {
    /// The executable of each part of the plan.
    pub parts: Vec<Box<dyn Executable>>,
    /// [`Pipeline::streams`]; `None` for a choice by measurement.
    pub stream_from: Option<usize>,
    /// The [key](Backend::rates_key) of their backend, on which such a measurement depends.
    pub rates_key: Option<String>,
}

/// The properties of an executable by which a scheduler forms and submits passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// Number of passes that can be submitted before the oldest is taken: 1 if
    /// [`Executable::submit`] itself runs the pass.
    pub depth: usize,
    /// Devices that a pass goes through one after the other. Each has work if as many passes of
    /// different sequences are in flight.
    pub stages: usize,
    /// The greatest [`Pass::repeat`] that saves time; 1 if a repeat saves none.
    pub repeat: u32,
    /// Whether both [phases](crate::Phase) give the same bits for a row.
    pub phases_agree: bool,
    /// Number of rows up to which the rows of a decoding pass have the bits that each has alone.
    /// `usize::MAX` if there is no such limit.
    pub exact_rows: usize,
    /// Whether a pass can have a [`Want::Later`](crate::Want::Later). It is useful where passes run
    /// while the host does something else.
    pub late_draws: bool,
    /// The length in tokens from which on prompts are faster in passes of their own than as rows of
    /// decoding passes. `None` unless passes over prompts stream weights from the host's memory:
    /// these take as long with few rows as with many.
    pub streams: Option<usize>,
}

/// The memory of an executable that a partner reads, in a form that its backend alone knows.
pub type Shared = Arc<dyn Any + Send + Sync>;

/// A plan with its weights and caches resident on one backend.
///
/// An executable is a queue of passes. [`submit`](Self::submit) starts a pass and returns a ticket;
/// [`take`](Self::take) waits for the oldest pass and returns its results. The caller may submit up
/// to [`Pipeline::depth`] passes before it takes the oldest. Tokens that a pass samples stay in the
/// backend's memory, and a row of a later pass reads them by
/// [`Input::Sampled`](crate::Input::Sampled).
///
/// Passes run in the order of their submission, and each reads what those before it have written. A
/// pass that fails leaves the caches of its own slots undefined and all others unchanged.
pub trait Executable: Send {
    /// The properties by which a scheduler forms and submits passes; constant after the load.
    fn pipeline(&self) -> Pipeline;

    /// Whether its passes read bytes of the checkpoint's files, which must not change then. False
    /// where the load has copied all weights.
    fn reads_files(&self) -> bool {
        true
    }

    /// The part of its memory that a partner reads ([`pair`](Self::pair)); `None` if no
    /// other executable can.
    fn shared(&self) -> Option<Shared> {
        None
    }

    /// Makes another executable of the same backend its partner, whose sampled tokens and hidden
    /// states its passes can read ([`Input::Drafted`](crate::Input::Drafted),
    /// [`Hidden::Partner`](crate::Hidden::Partner)). They read what passes that were submitted
    /// before have left; hidden states may have to be those of a pass that was taken. Returns
    /// whether it can: the two must be on one device and have as many slots.
    fn pair(&mut self, partner: Shared) -> bool {
        let _ = partner;
        false
    }

    /// Starts a pass. Called with up to [`Pipeline::depth`] passes that are not taken yet, this one
    /// included. The edits of page tables are applied before it returns; the rows may run later.
    ///
    /// # Errors
    ///
    /// [`Error::Pass`] if [`Pass::check`] refuses the pass, or if too many passes are not taken
    /// yet; other errors if the backend fails. There is no ticket then and nothing to take.
    fn submit(&mut self, pass: &Pass<'_>) -> Result<Ticket, Error>;

    /// Whether it ranks tokens where the logits are ([`submit_ranked`](Self::submit_ranked)).
    fn ranks(&self) -> bool {
        false
    }

    /// Starts a pass whose wants are [logits](crate::Want::Logits) of different rows, of which only
    /// the results of the ranking come to the host. Else as [`submit`](Self::submit).
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit); [`Error::Pass`] if the backend does not rank, or the ranking
    /// does not suit the pass.
    fn submit_ranked(&mut self, pass: &Pass<'_>, ranking: &Ranking<'_>) -> Result<Ticket, Error> {
        let (rows, count) = (pass.rows.len(), ranking.count);
        Err(Error::Pass(format!("{count} tokens of {rows} rows, but the backend ranks none")))
    }

    /// Samples the token of the newest pass, whose want is a [`Want::Later`](crate::Want::Later),
    /// by a draw of its row 0. Without a draw the pass has no sample. Called once for each such
    /// pass, before the next one is submitted and before it is taken.
    ///
    /// # Errors
    ///
    /// [`Error::Pass`] if the ticket is not that of the newest pass, if that one waits for no draw,
    /// or if a value of the draw is out of its range. Other errors if the backend fails.
    fn draw(&mut self, ticket: Ticket, sample: Option<&Sample<'_>>) -> Result<(), Error> {
        let _ = sample;
        Err(Error::Pass(format!("a draw of pass {}, but the backend has no late draws", ticket.0)))
    }

    /// Waits for the oldest pass that is not taken yet, and returns its results, which the
    /// executable overwrites later.
    ///
    /// # Errors
    ///
    /// [`Error::Pass`] if the ticket is not that of the oldest pass; other errors if the pass
    /// failed, which then counts as taken.
    fn take(&mut self, ticket: Ticket) -> Result<Outputs<'_>, Error>;

    /// Whether [`take`](Self::take) of a pass would return its results without a wait, if those
    /// before it are taken. True too where the executable cannot tell.
    fn is_done(&self, ticket: Ticket) -> bool {
        let _ = ticket;
        true
    }

    /// Copies a page of a cache group in all its layers: after all passes submitted so far, before
    /// all later ones.
    ///
    /// # Errors
    ///
    /// [`Error::Pass`] if the group or a page does not exist.
    fn copy_page(&mut self, group: usize, from: u32, to: u32) -> Result<(), Error>;

    /// Copies several pages `[from, to]` of a cache group as [`copy_page`](Self::copy_page), in any
    /// order: no page is both copied and a copy.
    ///
    /// # Errors
    ///
    /// As [`copy_page`](Self::copy_page).
    fn copy_pages(&mut self, group: usize, pages: &[[u32; 2]]) -> Result<(), Error> {
        pages.iter().try_for_each(|&[from, to]| self.copy_page(group, from, to))
    }

    /// Copies all recurrent states of a slot to a snapshot, one of
    /// [`Limits::snapshots`](crate::Limits::snapshots). The copy comes after all passes submitted
    /// so far and before all later ones.
    ///
    /// # Errors
    ///
    /// [`Error::Pass`] if the slot or the snapshot does not exist; other errors if the backend
    /// fails.
    fn save_states(&mut self, slot: u32, snapshot: u32) -> Result<(), Error> {
        Err(no_snapshots(slot, snapshot))
    }

    /// Copies a snapshot to the recurrent states of a slot, in the order of
    /// [`save_states`](Self::save_states). The slot's next row is at the position after those that
    /// had run when the snapshot was saved.
    ///
    /// # Errors
    ///
    /// As [`save_states`](Self::save_states).
    fn restore_states(&mut self, snapshot: u32, slot: u32) -> Result<(), Error> {
        Err(no_snapshots(slot, snapshot))
    }

    /// Sets the LoRA adapters of a slot, each with its factor: those of its rows in all passes that
    /// are submitted later. After the load every slot has none.
    ///
    /// # Errors
    ///
    /// [`Error::Pass`] if the plan has no [`Op::Adapters`], or if the slot or an adapter does not
    /// exist.
    fn set_adapters(&mut self, slot: u32, adapters: &[(u32, f32)]) -> Result<(), Error> {
        let count = adapters.len();
        Err(Error::Pass(format!("{count} adapters of slot {slot}, but the plan has none")))
    }

    /// The share of the weights of [marked](crate::Weight::marked) matrices that rows
    /// below 1 have multiplied since the load. `None` before the first such row, and on backends
    /// that do not count.
    fn live_share(&self) -> Option<f64> {
        None
    }

    /// Runs a pass `passes` times and returns the time of each step. Called when all passes are
    /// taken; the results of the pass are dropped. Afterwards the cached positions of its rows, the
    /// sampled tokens and the recurrent states of its slots are undefined.
    ///
    /// # Errors
    ///
    /// [`Error::Profile`] if the backend has no clock for single steps.
    fn profile(&mut self, pass: &Pass<'_>, passes: usize) -> Result<Profile, Error> {
        let _ = (pass, passes);
        Err(Error::Profile)
    }
}

fn no_snapshots(slot: u32, snapshot: u32) -> Error {
    Error::Pass(format!("snapshot {snapshot} of slot {slot}, but the backend has no snapshots"))
}

impl Plan {
    /// Refuses a plan with an op that the backend does not accept, or with an effort that it does
    /// not have. [`Backend::load`] calls it first.
    ///
    /// # Errors
    ///
    /// [`Error::Op`] naming the backend, the first such op and its layer; [`Error::Effort`].
    pub fn check_accepted(&self, backend: &dyn Backend) -> Result<(), Error> {
        let lacks = |form: EffortForm| self.has_form(form) && !backend.has_effort(form);
        if EffortForm::ALL.into_iter().any(lacks) {
            return Err(Error::Effort(format!(
                "'{}' cannot run rows of an effort below 1 of this model, expected the fast path of the CPU",
                backend.name()
            )));
        }
        self.check_scores()?;
        match self.steps.iter().find(|step| !backend.accepts(&step.op, self)) {
            None => Ok(()),
            Some(step) => Err(Error::Op {
                backend: backend.name().to_owned(),
                op: self.line(step, 0),
                layer: step.layer,
            }),
        }
    }
}
