//! Snapshots of recurrent states in the prefix tree.
//!
//! A recurrent state belongs to the newest position of its sequence, so a cached prefix is of use
//! only up to a page after which a snapshot was saved. Snapshots of prompts become part of the tree
//! with their pages. A snapshot of generated text stays with its sequence, which overwrites it at
//! the border of each page, until the sequence ends.
//!
//! The scheduler saves snapshots where the rows of a prompt end at the border of a page. These are
//! the borders of chunks, the last border of each prompt, and the places where a prompt is known to
//! branch off from another. The snapshot whose last use is the longest ago is replaced.

use pelton_graph::PAGE;

use super::{
    page_cache::PageCache,
    pool::NodeId,
    tables::{SequencePages, Snapshot},
};
use crate::api::PageCounts;

impl PageCache {
    /// Whether the plan has recurrent states.
    pub(crate) fn is_recurrent(&self) -> bool {
        self.snapshots.is_some()
    }

    /// The snapshots by state.
    pub(crate) fn snapshot_counts(&self) -> PageCounts {
        self.snapshots.as_ref().map_or_else(PageCounts::default, |pool| pool.counts())
    }

    /// Whether a sequence can continue after the last of these nodes as far as states go.
    pub(super) fn has_states(&self, path: &[NodeId]) -> bool {
        let Some(&last) = path.last() else { return true };
        self.snapshots.is_none() || self.tree.snapshot(last).is_some()
    }

    /// Holds the snapshot of a node until it is restored.
    pub(super) fn hold_snapshot(&mut self, pages: &mut SequencePages, node: NodeId) {
        if let (Some(pool), Some(snapshot)) = (&mut self.snapshots, self.tree.snapshot(node)) {
            pool.hold(snapshot);
            pages.restore = Some(snapshot);
        }
    }

    /// The snapshot that has to be restored before the first row of a sequence, if there is one.
    /// The copy has to be ordered before anything else.
    pub(crate) fn take_restore(&mut self, pages: &mut SequencePages) -> Option<u32> {
        let snapshot = pages.restore.take()?;
        if let Some(pool) = &mut self.snapshots {
            pool.unhold(snapshot);
        }
        Some(snapshot)
    }

    /// The first position after `first` and before `end` at which rows of a prompt should end so
    /// that a snapshot can be saved there. Candidates are the last border of a page that a like
    /// prompt can share, and borders after which others are known to continue.
    pub(crate) fn next_border(
        &self,
        pages: &SequencePages,
        prompt: usize,
        first: usize,
        end: usize,
    ) -> Option<usize> {
        self.snapshots.as_ref()?;
        let borders = pages.borders.iter().copied().chain([prompt.saturating_sub(1) / PAGE]);
        let positions = borders.map(|border| border * PAGE);
        positions.filter(|&position| first < position && position < end).min()
    }

    /// The snapshot to which the states of a sequence have to be saved after its first `positions`
    /// positions were submitted, if they are worth it and one is free or can be evicted.
    pub(crate) fn snapshot_at(
        &mut self,
        pages: &mut SequencePages,
        prompt: usize,
        positions: usize,
    ) -> Option<u32> {
        self.snapshots.as_ref()?;
        let depth = positions / PAGE;
        // where phases differ, generated text is no prefix of a later prompt
        if !positions.is_multiple_of(PAGE) || positions > prompt && !self.phases_agree {
            return None;
        }
        if positions > prompt
            && let Some(own) = pages.snapshots.iter_mut().find(|own| own.depth > prompt / PAGE)
        {
            own.depth = depth;
            return Some(own.index);
        }
        let index = self.alloc_snapshot()?;
        pages.snapshots.push(Snapshot { index, depth });
        Some(index)
    }

    /// The snapshot of a sequence for the states before its drafted tokens, if one is free or can
    /// be evicted. It stays with the sequence.
    pub(crate) fn rollback_snapshot(&mut self, pages: &mut SequencePages) -> Option<u32> {
        if pages.rollback.is_none() {
            pages.rollback = self.alloc_snapshot();
        }
        pages.rollback
    }

    /// Frees a snapshot that could not be saved.
    pub(crate) fn forget_snapshot(&mut self, pages: &mut SequencePages, index: u32) {
        if let Some(pool) = &mut self.snapshots {
            pages.snapshots.retain(|snapshot| snapshot.index != index);
            pool.unhold(index);
        }
    }

    fn alloc_snapshot(&mut self) -> Option<u32> {
        if let Some(index) = self.snapshots.as_mut()?.alloc() {
            return Some(index);
        }
        let (_, node) = self.snapshots.as_ref()?.oldest_idle()?;
        self.drop_snapshot(node);
        self.tree.prune(node);
        self.snapshots.as_mut()?.alloc()
    }

    /// Frees the snapshot of a node unless it is about to be restored.
    pub(super) fn drop_snapshot(&mut self, node: NodeId) {
        if let (Some(pool), Some(snapshot)) = (&mut self.snapshots, self.tree.snapshot(node))
            && !pool.is_held(snapshot)
        {
            pool.evict(snapshot);
            self.tree.set_snapshot(node, None);
        }
    }

    /// Puts the snapshots after at most `most` pages into the tree, as far as their pages are
    /// there.
    pub(super) fn cache_snapshots(&mut self, pages: &mut SequencePages, most: usize) {
        let Some(pool) = &mut self.snapshots else { return };
        let (depth, deepest) = (pages.depth, pages.node);
        pages.snapshots.retain(|snapshot| {
            if snapshot.depth > depth.min(most) {
                return true;
            }
            let up = depth - snapshot.depth;
            let node = (0..up).try_fold(deepest, |node, _| Some(self.tree.parent(node?))).flatten();
            match node {
                Some(node) if self.tree.snapshot(node).is_none() => {
                    pool.cache(snapshot.index, node);
                    self.tree.set_snapshot(node, Some(snapshot.index));
                }
                // there is an equal one
                _ => {}
            }
            pool.unhold(snapshot.index);
            false
        });
    }

    /// Puts the snapshots whose pages are in the tree there, and frees the others.
    pub(super) fn release_snapshots(&mut self, pages: &mut SequencePages) {
        self.cache_snapshots(pages, pages.depth);
        self.take_restore(pages);
        if let Some(pool) = &mut self.snapshots {
            pages.snapshots.drain(..).for_each(|snapshot| pool.unhold(snapshot.index));
            pages.rollback.take().into_iter().for_each(|snapshot| pool.unhold(snapshot));
        }
        pages.borders.clear();
    }

    /// Compares the snapshots with all sequences that hold some.
    pub(super) fn check_snapshots<'a>(
        &self,
        sequences: impl Iterator<Item = &'a SequencePages>,
    ) -> Result<(), String> {
        let Some(pool) = &self.snapshots else { return Ok(()) };
        let mut holders = vec![0; pool.counts().total];
        for pages in sequences {
            let own = pages.snapshots.iter().map(|snapshot| snapshot.index);
            own.chain(pages.restore)
                .chain(pages.rollback)
                .for_each(|index| holders[index as usize] += 1);
        }
        pool.check(&holders).map_err(|what| format!("snapshots of states: {what}"))
    }
}
