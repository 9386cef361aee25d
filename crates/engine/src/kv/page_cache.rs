//! Allocation, sharing and eviction of pages.

use pelton_graph::{CacheGroup, PAGE, pages_for};

use super::{
    events::Reports,
    pool::{NodeId, PagePool},
    prefix_tree::{Edge, Namespace, PrefixTree},
    sizing::windowed_pages,
    tables::SequencePages,
};
use crate::api::{CacheCallback, PageCounts};

/// A cache group has no page left that is free or can be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfPages;

struct Group {
    pool: PagePool,
    window: Option<usize>,
}

/// The pages of all cache groups and the tree of shared prefixes.
pub(crate) struct PageCache {
    groups: Vec<Group>,
    pub(super) tree: PrefixTree,
    /// Snapshots of recurrent states, each a page of its own kind; `None` if the plan has no such
    /// states.
    pub(super) snapshots: Option<PagePool>,
    /// Whether rows give the same bits in both phases.
    pub(super) phases_agree: bool,
    evictions: u64,
    /// Reports of cached pages, if a router wants them.
    reports: Option<Reports>,
}

impl PageCache {
    /// Pages of each group, and snapshots if the plan has recurrent states.
    pub(crate) fn new(
        groups: &[CacheGroup],
        pages: &[usize],
        snapshots: Option<usize>,
        phases_agree: bool,
    ) -> Self {
        let groups: Vec<Group> = groups
            .iter()
            .zip(pages)
            .map(|(group, &pages)| Group { pool: PagePool::new(pages), window: group.window })
            .collect();
        Self {
            tree: PrefixTree::new(groups.len()),
            groups,
            snapshots: snapshots.map(PagePool::new),
            phases_agree,
            evictions: 0,
            reports: None,
        }
    }

    /// Reports the pages that are cached and evicted from now on.
    pub(crate) fn reporting_to(mut self, call: Option<CacheCallback>) -> Self {
        let groups: Vec<CacheGroup> =
            self.groups.iter().map(|group| CacheGroup { window: group.window }).collect();
        self.reports = call.map(|call| Reports::new(call, &groups));
        self
    }

    /// Passes on which pages were cached and evicted since the last call.
    pub(crate) fn send_reports(&mut self) {
        if let Some(reports) = &mut self.reports {
            reports.send();
        }
    }

    /// Pages that were evicted since the load.
    pub(crate) fn evictions(&self) -> u64 {
        self.evictions
    }

    pub(crate) fn groups(&self) -> usize {
        self.groups.len()
    }

    pub(crate) fn counts(&self) -> Vec<PageCounts> {
        self.groups.iter().map(|group| group.pool.counts()).collect()
    }

    /// How many leading positions of page `index` are rows of a prompt of `prompt` tokens.
    fn prompt_rows(&self, index: usize, prompt: usize) -> u8 {
        match self.phases_agree {
            true => PAGE as u8,
            false => prompt.saturating_sub(index * PAGE).min(PAGE) as u8,
        }
    }

    fn edge(&self, tokens: &[u32], index: usize, prompt: usize) -> Option<Edge> {
        let page = tokens.get(index * PAGE..(index + 1) * PAGE)?;
        Edge::new(page, self.prompt_rows(index, prompt))
    }

    /// The longest cached prefix of a sequence of which the first `prompt` tokens are its prompt.
    /// It has whole pages, and at least one token fewer than there are. Plans with recurrent states
    /// need one with a snapshot. Holds its pages; returns them with the number of positions.
    pub(crate) fn lookup(
        &mut self,
        namespace: impl Into<Namespace>,
        tokens: &[u32],
        prompt: usize,
    ) -> (SequencePages, usize) {
        let mut pages = SequencePages::new(self.groups.len());
        let mut path: Vec<NodeId> = Vec::new();
        let mut node = self.tree.root(namespace);
        self.tree.move_hold(None, Some(node));
        pages.node = Some(node);
        while path.len() < tokens.len().saturating_sub(1) / PAGE {
            let child =
                self.edge(tokens, path.len(), prompt).and_then(|edge| self.tree.child(node, &edge));
            let Some(child) = child else { break };
            path.push(child);
            node = child;
        }
        // every group must have the pages that the next position sees
        let complete = |depth: usize| {
            self.groups.iter().enumerate().all(|(g, group)| {
                let from = first_seen(group.window, depth * PAGE) / PAGE;
                path[from.min(depth)..depth].iter().all(|&node| self.tree.page(node, g).is_some())
            }) && self.has_states(&path[..depth])
        };
        if self.snapshots.is_some() {
            pages.borders.push(path.len());
        }
        let depth = (0..=path.len()).rev().find(|&depth| complete(depth)).unwrap_or(0);
        let Some(&deepest) = depth.checked_sub(1).and_then(|last| path.get(last)) else {
            return (pages, 0);
        };
        for (g, group) in self.groups.iter_mut().enumerate() {
            let table = &mut pages.tables[g];
            table.held_from = (first_seen(group.window, depth * PAGE) / PAGE).min(depth);
            for (i, &node) in path[..depth].iter().enumerate() {
                match self.tree.page(node, g) {
                    Some(page) if i >= table.held_from => {
                        group.pool.hold(page);
                        table.pages.push(page);
                    }
                    // never read: before the window
                    _ => table.pages.push(0),
                }
            }
        }
        self.hold_snapshot(&mut pages, deepest);
        self.tree.move_hold(pages.node, Some(deepest));
        pages.node = Some(deepest);
        pages.depth = depth;
        (pages, depth * PAGE)
    }

    /// Lets the tables reach `positions` positions, with pages that are free or evicted.
    ///
    /// # Errors
    ///
    /// If a group has too few; the tables keep the pages that they got.
    pub(crate) fn grow(
        &mut self,
        pages: &mut SequencePages,
        positions: usize,
    ) -> Result<(), OutOfPages> {
        let count = pages_for(positions);
        for g in 0..self.groups.len() {
            while pages.tables[g].pages.len() < count {
                let page = self.alloc(g).ok_or(OutOfPages)?;
                pages.tables[g].pages.push(page);
            }
        }
        Ok(())
    }

    /// Whether [`grow`](Self::grow) would succeed for all of these tables, one after the other.
    pub(crate) fn can_grow<'a>(
        &self,
        all: impl Iterator<Item = (&'a SequencePages, usize)> + Clone,
    ) -> bool {
        self.groups.iter().enumerate().all(|(g, group)| {
            let missing = all.clone().map(|(pages, positions)| {
                pages_for(positions).saturating_sub(pages.tables[g].pages.len())
            });
            missing.sum::<usize>() <= group.pool.available()
        })
    }

    /// The pages of each group that a sequence still needs to reach `positions` positions.
    pub(crate) fn demand(&self, pages: &SequencePages, positions: usize) -> Vec<usize> {
        let each = self.groups.iter().zip(&pages.tables);
        each.map(|(group, table)| {
            let needed = match group.window {
                None => pages_for(positions),
                Some(window) => pages_for(positions).min(windowed_pages(window)),
            };
            needed.saturating_sub(table.held().len())
        })
        .collect()
    }

    /// Whether each group has this many pages that are free or can be evicted.
    pub(crate) fn has(&self, pages: &[usize]) -> bool {
        self.groups.iter().zip(pages).all(|(group, &pages)| pages <= group.pool.available())
    }

    fn alloc(&mut self, g: usize) -> Option<u32> {
        if let Some(page) = self.groups[g].pool.alloc() {
            return Some(page);
        }
        self.evict(g)?;
        self.groups[g].pool.alloc()
    }

    /// Frees the page of a group that was held longest ago.
    fn evict(&mut self, g: usize) -> Option<()> {
        let (page, node) = self.groups[g].pool.oldest_idle()?;
        tracing::trace!(group = g, page, "a cached page is evicted");
        self.evictions += 1;
        if self.groups[g].window.is_some() {
            // the node stays for the other groups, and for hits that end far after it
            self.uncache(page, node, g);
        } else {
            debug_assert!(self.tree.is_leaf(node), "an idle page of a node with children");
            for g in 0..self.groups.len() {
                if let Some(page) = self.tree.page(node, g)
                    && !self.groups[g].pool.is_held(page)
                {
                    self.uncache(page, node, g);
                }
            }
            self.drop_snapshot(node);
        }
        self.tree.prune(node);
        Some(())
    }

    /// Frees the idle page of a node.
    fn uncache(&mut self, page: u32, node: NodeId, g: usize) {
        self.groups[g].pool.evict(page);
        self.tree.set_page(node, g, None);
        if let Some(reports) = &mut self.reports {
            reports.removed(&self.tree, node, g);
        }
    }

    /// Frees the pages of windowed groups that no row from `position` on sees.
    pub(crate) fn slide(&mut self, pages: &mut SequencePages, position: usize) {
        for (group, table) in self.groups.iter_mut().zip(&mut pages.tables) {
            let from = (first_seen(group.window, position) / PAGE).min(table.pages.len());
            while table.held_from < from {
                group.pool.unhold(table.pages[table.held_from]);
                table.held_from += 1;
            }
        }
    }

    /// Whether the pages of all positions that a row at `position` sees are held.
    pub(crate) fn sees(&self, pages: &SequencePages, position: usize) -> bool {
        let mut groups = self.groups.iter().zip(&pages.tables);
        groups.all(|(group, table)| table.held_from <= first_seen(group.window, position) / PAGE)
    }

    /// Puts the full pages of the first `positions` positions into the prefix tree: they have been
    /// run, and their tokens are final. Where the tree has a page already, the sequence takes that
    /// one and its own becomes free.
    pub(crate) fn commit(
        &mut self,
        pages: &mut SequencePages,
        tokens: &[u32],
        prompt: usize,
        positions: usize,
    ) {
        while pages.depth < positions / PAGE {
            let index = pages.depth;
            let (Some(parent), Some(edge)) = (pages.node, self.edge(tokens, index, prompt)) else {
                return;
            };
            let node = self.tree.insert(parent, edge);
            for (g, (group, table)) in self.groups.iter_mut().zip(&mut pages.tables).enumerate() {
                if index < table.held_from || index >= table.pages.len() {
                    continue;
                }
                let own = table.pages[index];
                match self.tree.page(node, g) {
                    Some(shared) => {
                        group.pool.hold(shared);
                        group.pool.unhold(own);
                        table.pages[index] = shared;
                        table.sent = table.sent.min(index);
                    }
                    None => {
                        group.pool.cache(own, node);
                        self.tree.set_page(node, g, Some(own));
                        if let Some(reports) = &mut self.reports {
                            reports.stored(&self.tree, node, g);
                        }
                    }
                }
            }
            self.tree.move_hold(pages.node, Some(node));
            pages.node = Some(node);
            pages.depth += 1;
        }
        self.cache_snapshots(pages, prompt / PAGE);
    }

    /// Frees everything that the tables hold, the deepest page first. May be called again.
    pub(crate) fn release(&mut self, pages: &mut SequencePages) {
        self.release_snapshots(pages);
        for (group, table) in self.groups.iter_mut().zip(&mut pages.tables) {
            for &page in table.held().iter().rev() {
                group.pool.unhold(page);
            }
            *table = super::tables::Table::default();
        }
        self.tree.move_hold(pages.node.take(), None);
        pages.depth = 0;
    }

    /// Compares the pools with all sequences that hold pages.
    ///
    /// # Errors
    ///
    /// A sentence about the first contradiction.
    pub(crate) fn check<'a>(
        &self,
        sequences: impl Iterator<Item = &'a SequencePages> + Clone,
    ) -> Result<(), String> {
        for (g, group) in self.groups.iter().enumerate() {
            let mut holders = vec![0; group.pool.counts().total];
            for page in sequences.clone().flat_map(|pages| pages.tables[g].held()) {
                holders[*page as usize] += 1;
            }
            group.pool.check(&holders).map_err(|what| format!("cache group {g}: {what}"))?;
        }
        self.check_snapshots(sequences)
    }
}

/// The first position that a row at `position` sees.
fn first_seen(window: Option<usize>, position: usize) -> usize {
    window.map_or(0, |window| (position + 1).saturating_sub(window))
}

#[cfg(test)]
mod report_tests;
#[cfg(test)]
mod tests;
