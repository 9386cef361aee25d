//! The pages of a model that drafts.

use pelton_graph::{Pass, TableEdit, Ticket};

use crate::{Error, kv::SequencePages, schedule::resources::Resources};

/// The pages of each slot of a model that drafts, which has enough for all of them at full length.
pub(super) struct SlotPages(Vec<SequencePages>);

impl SlotPages {
    /// No pages yet for the slots of a model.
    pub(super) fn new(resources: &Resources) -> Self {
        let groups = resources.kv.groups();
        let slots = std::iter::repeat_with(|| SequencePages::new(groups));
        Self(slots.take(resources.limits.sequences).collect())
    }

    /// Gives back the pages of a slot that another sequence has now.
    pub(super) fn release(&mut self, resources: &mut Resources, slot: u32) {
        resources.kv.release(&mut self.0[slot as usize]);
    }

    /// Submits a pass, with pages for the positions below the end of each slot `(slot, end)`.
    ///
    /// # Errors
    ///
    /// If there are no more pages, or the backend refuses the pass.
    pub(super) fn submit(
        &mut self,
        resources: &mut Resources,
        pass: &Pass<'_>,
        ends: &[(u32, usize)],
    ) -> Result<Ticket, Error> {
        for &(slot, end) in ends {
            let available = resources.limits.context;
            let grown = resources.kv.grow(&mut self.0[slot as usize], end);
            grown.map_err(|_| Error::CacheFull { needed: end, available })?;
        }
        let mut tables: Vec<TableEdit<'_>> = Vec::new();
        for &(slot, _) in ends {
            for (group, table) in self.0[slot as usize].tables.iter().enumerate() {
                if let Some((first, pages)) = table.unsent() {
                    let (group, first) = (group as u32, first as u32);
                    tables.push(TableEdit { group, slot, first, pages });
                }
            }
        }
        let ticket = resources.runner.submit(&Pass { tables: &tables, ..*pass })?;
        ends.iter().for_each(|&(slot, _)| self.0[slot as usize].mark_sent());
        Ok(ticket)
    }
}
