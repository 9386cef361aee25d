//! The page tables of all slots: the pages in which the keys and values of each sequence lie.
//!
//! Layers whose queries see the same positions form a cache group, which has a pool of pages of its
//! own. For each slot it has a page table: position `p` is in page `table[p / 64]`. A pass carries
//! only the changed tail of a table.
//!
//! The table of a windowed group is indexed like any other. Pages that lie wholly before the window
//! are freed, and their stale entries are never read.

use crate::{Error, Limits, Plan, pages_for};

/// New entries of one page table: the pages of the positions from `first · PAGE` on. The table
/// ends after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableEdit<'a> {
    /// The cache group, an index into [`Plan::groups`](crate::Plan::groups).
    pub group: u32,
    /// The slot.
    pub slot: u32,
    /// The index of the first entry that changes; at most the table's length.
    pub first: u32,
    /// The pages from that entry on.
    pub pages: &'a [u32],
}

/// Page tables `[groups, slots, pages]`: position `p` of a slot lies in page `table[p / PAGE]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageTables {
    /// `[groups][slots][pages]`.
    tables: Vec<Vec<Vec<u32>>>,
    /// Number of pages of each group `[groups]`.
    pages: Vec<usize>,
    /// Maximum entries of a table.
    longest: usize,
}

impl PageTables {
    /// Empty tables for `limits.sequences` slots of each group.
    pub fn new(limits: &Limits) -> Self {
        Self::of(limits, limits.context)
    }

    /// Empty tables for a plan, whose encoded windows may have more positions than its contexts.
    pub fn for_plan(plan: &Plan, limits: &Limits) -> Self {
        Self::of(limits, limits.context.max(plan.encoded_positions()))
    }

    fn of(limits: &Limits, positions: usize) -> Self {
        let longest = pages_for(positions);
        let slots = vec![Vec::new(); limits.sequences];
        Self { tables: vec![slots; limits.pages.len()], pages: limits.pages.clone(), longest }
    }

    /// The pages of a slot in a group, in the order of positions.
    pub fn table(&self, group: usize, slot: usize) -> &[u32] {
        &self.tables[group][slot]
    }

    /// Applies an edit to its table.
    ///
    /// # Errors
    ///
    /// [`Error::Pass`] if the group, the slot, an entry or a page does not exist; the tables are
    /// unchanged then.
    pub fn apply(&mut self, edit: &TableEdit<'_>) -> Result<(), Error> {
        let &TableEdit { group, slot, first, pages } = edit;
        let fail = |what: String| Err(Error::Pass(what));
        let groups = self.tables.len();
        let Some(slots) = self.tables.get_mut(group as usize) else {
            return fail(format!("cache group {group} of a page table, expected one of {groups}"));
        };
        let count = slots.len();
        let Some(table) = slots.get_mut(slot as usize) else {
            return fail(format!("slot {slot} of a page table, expected one of {count}"));
        };
        let first = first as usize;
        if first > table.len() || first + pages.len() > self.longest {
            return fail(format!(
                "entries {first} to {} of a page table of {}, expected at most {}",
                first + pages.len(),
                table.len(),
                self.longest
            ));
        }
        let known = self.pages[group as usize];
        if let Some(page) = pages.iter().find(|&&page| page as usize >= known) {
            return fail(format!("page {page} of a table, expected one of {known}"));
        }
        table.truncate(first);
        table.extend_from_slice(pages);
        Ok(())
    }
}
