//! The pages and the passes of a model that drafts.
//!
//! Passes are submitted one after the other as far as the backend allows. Their samples are taken
//! when somebody asks for them. Where the backend hands drafted tokens on to the pass that verifies
//! them, nobody does: then a pass is taken when a later one needs its place, and has long ended.

use std::collections::VecDeque;

use pelton_graph::{Pass, TableEdit, Ticket};
use pelton_sampling::Sampled;

use crate::{Error, kv::SequencePages, schedule::resources::Resources};

/// The pages of each slot of a model that drafts, which has enough for all of them at full length,
/// and its passes that were not taken yet.
pub(super) struct DraftPasses {
    /// `[slots]`.
    pages: Vec<SequencePages>,
    /// Each with the number of its draft.
    tickets: VecDeque<(u64, Ticket)>,
    /// The number of the newest draft, and the samples of its passes that were taken.
    draft: u64,
    samples: Vec<Sampled>,
}

impl DraftPasses {
    /// No pages yet for the slots of a model.
    pub(super) fn new(resources: &Resources) -> Self {
        let groups = resources.kv.groups();
        let slots = std::iter::repeat_with(|| SequencePages::new(groups));
        let pages = slots.take(resources.limits.sequences).collect();
        Self { pages, tickets: VecDeque::new(), draft: 0, samples: Vec::new() }
    }

    /// Begins a draft. Samples of earlier passes count no more.
    pub(super) fn begin(&mut self) {
        self.draft += 1;
        self.samples.clear();
    }

    /// Gives back the pages of a slot that another sequence has now.
    pub(super) fn release(&mut self, resources: &mut Resources, slot: u32) {
        resources.kv.release(&mut self.pages[slot as usize]);
    }

    /// Submits a pass, with pages for the positions below the end of each slot `(slot, end)`.
    ///
    /// # Errors
    ///
    /// If there are no more pages, the backend refuses the pass, or one before it failed.
    pub(super) fn submit(
        &mut self,
        resources: &mut Resources,
        pass: &Pass<'_>,
        ends: &[(u32, usize)],
    ) -> Result<(), Error> {
        let depth = resources.runner.pipeline.depth.max(1);
        while self.tickets.len() >= depth {
            self.take(resources)?;
        }
        for &(slot, end) in ends {
            let available = resources.limits.context;
            let grown = resources.kv.grow(&mut self.pages[slot as usize], end);
            grown.map_err(|_| Error::CacheFull { needed: end, available })?;
        }
        let mut tables: Vec<TableEdit<'_>> = Vec::new();
        for &(slot, _) in ends {
            for (group, table) in self.pages[slot as usize].tables.iter().enumerate() {
                if let Some((first, pages)) = table.unsent() {
                    let (group, first) = (group as u32, first as u32);
                    tables.push(TableEdit { group, slot, first, pages });
                }
            }
        }
        let ticket = resources.runner.submit(&Pass { tables: &tables, ..*pass })?;
        self.tickets.push_back((self.draft, ticket));
        ends.iter().for_each(|&(slot, _)| self.pages[slot as usize].mark_sent());
        Ok(())
    }

    /// Takes the oldest pass.
    fn take(&mut self, resources: &mut Resources) -> Result<(), Error> {
        if let Some((draft, ticket)) = self.tickets.pop_front() {
            let samples = resources.runner.take(ticket)?.samples;
            self.samples.extend(samples.iter().filter(|_| draft == self.draft).cloned());
        }
        Ok(())
    }

    /// Takes all passes. Returns the tokens that the passes of the newest draft have
    /// sampled, in their order.
    ///
    /// # Errors
    ///
    /// If a pass failed.
    pub(super) fn finish(&mut self, resources: &mut Resources) -> Result<Vec<Sampled>, Error> {
        while !self.tickets.is_empty() {
            self.take(resources)?;
        }
        Ok(std::mem::take(&mut self.samples))
    }
}

/// The tokens of sequence `n` of `sequences` among those that the passes of a draft have sampled
/// `[tokens, sequences]`.
pub(super) fn column(samples: &[Sampled], n: usize, sequences: usize) -> Vec<u32> {
    samples.iter().skip(n).step_by(sequences.max(1)).map_while(|sampled| sampled.token).collect()
}
