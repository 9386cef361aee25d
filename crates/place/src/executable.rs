//! The parts of a model on several devices, as one executable.

use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    thread::{Builder, JoinHandle},
    time::Instant,
};

use pelton_graph::{
    Error, Executable, Limits, Outputs, PageTables, Pass, Pipeline, Plan, Profile, Ticket, Want,
    Ways,
};

use crate::{
    backoff::Backoff,
    relayed_pass::{Missed, RelayedPass},
    stage::{Job, Stage},
    tokens::Tokens,
};

/// A queue of passes that go through all devices.
pub(crate) struct SplitExecutable {
    plan: Plan,
    limits: Limits,
    tables: PageTables,
    pipeline: Pipeline,
    /// To the first device; `None` when it is dropped.
    first: Option<Sender<Job>>,
    /// From the last device.
    results: Receiver<Job>,
    backoff: Backoff,
    threads: Vec<JoinHandle<()>>,
    /// The passes that are not taken yet, the oldest first.
    submitted: VecDeque<Ticket>,
    /// Memory of passes that are taken.
    #[allow(clippy::vec_box, reason = "a pass moves between threads in its box")]
    free: Vec<Box<RelayedPass>>,
    /// The pass whose results were taken last.
    taken: Option<Box<RelayedPass>>,
    /// The edits of passes that were refused.
    missed: Missed,
    /// For each slot the passes that must be done before its newest sampled token is known.
    sampled: Vec<u64>,
    next: u64,
}

/// A part that is loaded on its device.
pub(crate) struct LoadedPart {
    pub(crate) device: String,
    pub(crate) executable: Box<dyn Executable>,
    /// Whether its steps read the tokens of rows.
    pub(crate) reads_tokens: bool,
    /// Whether its weights have efforts.
    pub(crate) has_effort: bool,
}

impl SplitExecutable {
    /// Starts a thread for each part of a plan, which waits with some back-off.
    ///
    /// # Errors
    ///
    /// [`Error::Threads`] if the system refuses one.
    pub(crate) fn new(
        plan: Plan,
        limits: Limits,
        parts: Vec<LoadedPart>,
        backoff: Backoff,
    ) -> Result<Self, Error> {
        let threads = parts.len();
        let fail = |error: io::Error| Error::Threads { threads, error };
        let each = parts.iter().map(|part| part.executable.pipeline());
        let pipeline = Pipeline {
            // one for each device, and one that is queued
            depth: threads + 1,
            stages: threads,
            repeat: 1,
            phases_agree: each.clone().all(|of| of.phases_agree),
            exact_rows: each.clone().map(|of| of.exact_rows).min().unwrap_or(usize::MAX),
            late_draws: false,
            streams: each.clone().filter_map(|of| of.streams).max(),
        };
        let tokens = Arc::new(Tokens::new(limits.sequences));
        let sampled = vec![0; limits.sequences];
        let (first, mut jobs) = channel();
        let mut handles = Vec::with_capacity(threads);
        for (i, part) in parts.into_iter().enumerate() {
            let is_last = i + 1 == threads;
            let LoadedPart { device, executable, reads_tokens, has_effort } = part;
            let flags = [reads_tokens, has_effort, is_last];
            let stage = Stage::new(&device, executable, flags, Arc::clone(&tokens), backoff);
            let (next, after) = channel();
            let own = std::mem::replace(&mut jobs, after);
            let thread = Builder::new().name(format!("pelton part {i}"));
            handles.push(thread.spawn(move || stage.run(&own, &next)).map_err(fail)?);
        }
        Ok(Self {
            tables: PageTables::for_plan(&plan, &limits),
            plan,
            limits,
            pipeline,
            first: Some(first),
            results: jobs,
            backoff,
            threads: handles,
            submitted: VecDeque::new(),
            free: Vec::new(),
            taken: None,
            missed: Missed::default(),
            sampled,
            next: 0,
        })
    }

    /// Applies the edits of a pass, which it counts, and checks the pass.
    fn check(&mut self, pass: &Pass<'_>, edits: &mut usize) -> Result<(), Error> {
        for edit in pass.tables {
            self.tables.apply(edit)?;
            *edits += 1;
        }
        pass.check(&self.plan, &self.limits, &self.tables)?;
        pass.check_other(0, None)?;
        match pass.draws_later() || pass.repeat > 1 {
            false => Ok(()),
            true => Err(Error::Pass(
                "a late draw or a repeat above 1, expected none over several devices".to_owned(),
            )),
        }
    }

    /// Sends the devices a pass, as a job.
    fn submit_as(
        &mut self,
        pass: &Pass<'_>,
        job: impl FnOnce(Box<RelayedPass>) -> Job,
    ) -> Result<Ticket, Error> {
        let depth = self.pipeline.depth;
        if self.submitted.len() >= depth {
            return Err(Error::Pass(format!("{depth} passes are not taken, expected fewer")));
        }
        let mut relayed = self.free.pop().unwrap_or_default();
        relayed.set(self.next, pass);
        let mut edits = 0;
        if let Err(error) = self.check(pass, &mut edits) {
            // the devices make them with the next pass
            relayed.miss(edits, &mut self.missed);
            self.free.push(relayed);
            return Err(error);
        }
        relayed.edit_before(std::mem::take(&mut self.missed));
        let ticket = relayed.ticket();
        self.next += 1;
        // a pass waits for the tokens of its own slots alone, so that those of others
        // keep all devices busy
        let slots = relayed.sampled_rows().map(|(slot, _)| self.sampled[slot as usize]);
        relayed.after = slots.max().unwrap_or(0);
        for want in pass.wants {
            if let Want::Sample(sample) = want {
                self.sampled[pass.rows[sample.row as usize].slot as usize] = self.next;
            }
        }
        self.send(job(relayed))?;
        self.submitted.push_back(ticket);
        Ok(ticket)
    }

    fn send(&self, job: Job) -> Result<(), Error> {
        let sent = self.first.as_ref().map(|first| first.send(job));
        match sent {
            Some(Ok(())) => Ok(()),
            _ => Err(ended()),
        }
    }
}

fn ended() -> Error {
    Error::Pass("the thread of a device has ended, expected none before the model".to_owned())
}

impl Executable for SplitExecutable {
    fn pipeline(&self) -> Pipeline {
        self.pipeline
    }

    fn submit(&mut self, pass: &Pass<'_>) -> Result<Ticket, Error> {
        self.submit_as(pass, Job::Pass)
    }

    fn take(&mut self, ticket: Ticket) -> Result<Outputs<'_>, Error> {
        if self.submitted.front() != Some(&ticket) {
            let found = match self.submitted.front() {
                Some(Ticket(oldest)) => format!("{oldest} is the oldest pass"),
                None => "every pass has been taken".to_owned(),
            };
            return Err(Error::Pass(format!("ticket {}, but {found}", ticket.0)));
        }
        self.submitted.pop_front();
        let mut relayed = loop {
            match self.backoff.receive(&self.results) {
                Ok(Job::Pass(relayed) | Job::Profile { relayed, .. }) => break relayed,
                Ok(_) => {}
                Err(_) => return Err(ended()),
            }
        };
        let error = relayed.error.take();
        self.free.extend(self.taken.take());
        let taken = self.taken.insert(relayed);
        match error {
            Some(error) => Err(error),
            None => Ok(taken.outputs()),
        }
    }

    fn copy_page(&mut self, group: usize, from: u32, to: u32) -> Result<(), Error> {
        self.copy_pages(group, &[[from, to]])
    }

    fn copy_pages(&mut self, group: usize, pages: &[[u32; 2]]) -> Result<(), Error> {
        let count = self.limits.pages.get(group).copied().unwrap_or(0);
        if let Some(page) = pages.as_flattened().iter().find(|page| **page as usize >= count) {
            return Err(Error::Pass(format!(
                "page {page} of cache group {group}, expected one of {count}"
            )));
        }
        self.send(Job::CopyPages { group, pages: pages.to_vec() })
    }

    fn save_states(&mut self, slot: u32, snapshot: u32) -> Result<(), Error> {
        self.limits.check_snapshot(slot, snapshot)?;
        self.send(Job::SaveStates { slot, snapshot })
    }

    fn restore_states(&mut self, snapshot: u32, slot: u32) -> Result<(), Error> {
        self.limits.check_snapshot(slot, snapshot)?;
        self.send(Job::RestoreStates { snapshot, slot })
    }

    fn set_adapters(&mut self, slot: u32, adapters: &[(u32, f32)]) -> Result<(), Error> {
        self.plan.adapters_of(self.limits.sequences, slot, adapters)?;
        self.send(Job::SetAdapters { slot, adapters: adapters.to_vec() })
    }

    /// The devices measure their parts in turn. The time that whole passes take beyond
    /// theirs is that of hops.
    fn profile(&mut self, pass: &Pass<'_>, passes: usize) -> Result<Profile, Error> {
        if !self.submitted.is_empty() {
            return Err(Error::Pass("a pass is not taken, expected none".to_owned()));
        }
        let ticket = self.submit_as(pass, |relayed| Job::Profile { relayed, passes })?;
        self.take(ticket)?;
        let of_devices = self.taken.as_mut().map(|relayed| std::mem::take(&mut relayed.profiles));
        let of_devices = of_devices.unwrap_or_default();
        let begun = Instant::now();
        for _ in 0..passes.max(1) {
            let ticket = self.submit(&Pass { tables: &[], ..*pass })?;
            self.take(ticket)?;
        }
        let whole = begun.elapsed() / u32::try_from(passes.max(1)).unwrap_or(u32::MAX);
        let mut profile = Profile { parts: Vec::new(), ways: Ways::default(), pass: whole };
        let mut hop = whole;
        for of_device in of_devices {
            hop = hop.saturating_sub(of_device.pass);
            profile.ways += of_device.ways;
            profile.parts.extend(of_device.parts);
        }
        profile.ways.hop += hop;
        Ok(profile)
    }
}

impl Drop for SplitExecutable {
    /// Waits for the devices: a process that ends while a GPU runs can hang it.
    fn drop(&mut self) {
        self.first = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
