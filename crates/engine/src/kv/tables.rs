//! The page tables of one sequence.

use super::pool::NodeId;

/// The pages of one sequence in one cache group, in the order of positions.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// Entries before `held_from` are stale: their positions are before the group's window.
    pub(crate) pages: Vec<u32>,
    pub(crate) held_from: usize,
    /// The number of leading entries that the executable has. A changed entry lowers it.
    pub(crate) sent: usize,
}

impl Table {
    /// The entries that the executable has not got yet: the first one's index, and the pages.
    pub(crate) fn unsent(&self) -> Option<(usize, &[u32])> {
        (self.sent < self.pages.len()).then(|| (self.sent, &self.pages[self.sent..]))
    }

    /// The pages that are held.
    pub(crate) fn held(&self) -> &[u32] {
        &self.pages[self.held_from.min(self.pages.len())..]
    }
}

/// The page tables of one sequence, and its place in the prefix tree.
///
/// [`PageCache::release`](super::PageCache::release) frees them; without it the pages stay held.
#[derive(Debug)]
pub(crate) struct SequencePages {
    /// One for each cache group.
    pub(crate) tables: Vec<Table>,
    /// The deepest node of the prefix tree that the sequence has pages of.
    pub(crate) node: Option<NodeId>,
    /// Full pages in the tree, from the first on.
    pub(crate) depth: usize,
    /// Snapshots of its recurrent states that are not in the tree yet.
    pub(crate) snapshots: Vec<Snapshot>,
    /// The snapshot to which its states are rolled back where a draft is rejected.
    pub(crate) rollback: Option<u32>,
    /// The snapshot from which its states continue, until it is restored.
    pub(crate) restore: Option<u32>,
    /// Numbers of pages after which others continue, so that a snapshot there is of use.
    pub(crate) borders: Vec<usize>,
}

/// A snapshot of the recurrent states of one sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// Its index in the executable.
    pub(crate) index: u32,
    /// Full pages of positions that the states have seen.
    pub(crate) depth: usize,
}

impl SequencePages {
    /// Tables without pages.
    pub(crate) fn new(groups: usize) -> Self {
        let tables = std::iter::repeat_with(Table::default).take(groups).collect();
        Self {
            tables,
            node: None,
            depth: 0,
            snapshots: Vec::new(),
            rollback: None,
            restore: None,
            borders: Vec::new(),
        }
    }

    /// Notes that the executable has all entries.
    pub(crate) fn mark_sent(&mut self) {
        for table in &mut self.tables {
            table.sent = table.pages.len();
        }
    }
}
