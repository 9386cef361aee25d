//! The pages of one cache group, with their holders.

use std::collections::BTreeMap;

use crate::api::PageCounts;

/// A node of the prefix tree, by its index.
pub(crate) type NodeId = usize;

/// The pages of one cache group.
///
/// A page is in one of three states: *free*; *private*, held by the one sequence that writes it; or
/// *cached*, full and immutable, a node's page in the prefix tree with any number of holders. A
/// cached page without holders is *idle*: it can be evicted.
#[derive(Debug)]
pub(crate) struct PagePool {
    free: Vec<u32>,
    /// Sequences that hold each page.
    refs: Vec<u32>,
    /// The node of each cached page.
    nodes: Vec<Option<NodeId>>,
    /// Cached pages without holders, by the time at which the last holder left.
    idle: BTreeMap<u64, u32>,
    /// The key of each page in `idle`.
    stamps: Vec<u64>,
    clock: u64,
    private: usize,
    cached: usize,
}

impl PagePool {
    pub(crate) fn new(pages: usize) -> Self {
        Self {
            // allocated from the end, so that the first pages become resident first
            free: (0..pages as u32).rev().collect(),
            refs: vec![0; pages],
            nodes: vec![None; pages],
            idle: BTreeMap::new(),
            stamps: vec![0; pages],
            clock: 0,
            private: 0,
            cached: 0,
        }
    }

    /// Allocates a private page, if one is free.
    pub(crate) fn alloc(&mut self) -> Option<u32> {
        let page = self.free.pop()?;
        self.refs[page as usize] = 1;
        self.private += 1;
        Some(page)
    }

    /// Adds a holder to a cached page.
    pub(crate) fn hold(&mut self, page: u32) {
        let at = page as usize;
        debug_assert!(self.nodes[at].is_some(), "page {page} is shared and not cached");
        if self.refs[at] == 0 {
            self.idle.remove(&self.stamps[at]);
        }
        self.refs[at] += 1;
    }

    /// Removes a holder: a private page becomes free, a cached one without further holders idle.
    pub(crate) fn unhold(&mut self, page: u32) {
        let at = page as usize;
        debug_assert!(self.refs[at] > 0, "page {page} has no holder");
        self.refs[at] = self.refs[at].saturating_sub(1);
        match (self.refs[at], self.nodes[at]) {
            (0, Some(_)) => {
                self.clock += 1;
                self.stamps[at] = self.clock;
                self.idle.insert(self.clock, page);
            }
            (0, None) => {
                self.private -= 1;
                self.free.push(page);
            }
            _ => {}
        }
    }

    /// Makes a private page the cached page of a node; its holder stays.
    pub(crate) fn cache(&mut self, page: u32, node: NodeId) {
        debug_assert!(self.nodes[page as usize].is_none() && self.refs[page as usize] == 1);
        self.nodes[page as usize] = Some(node);
        self.private -= 1;
        self.cached += 1;
    }

    /// Frees an idle page.
    pub(crate) fn evict(&mut self, page: u32) {
        let at = page as usize;
        debug_assert!(self.refs[at] == 0 && self.nodes[at].is_some(), "page {page} is not idle");
        self.idle.remove(&self.stamps[at]);
        self.nodes[at] = None;
        self.cached -= 1;
        self.free.push(page);
    }

    /// The idle page that was held longest ago, with its node.
    ///
    /// A holder of a node's page holds, or held, those of the nodes above, and leaves the deepest
    /// first: so the page belongs to a leaf among the nodes that have pages of this group.
    pub(crate) fn oldest_idle(&self) -> Option<(u32, NodeId)> {
        let page = *self.idle.first_key_value()?.1;
        self.nodes[page as usize].map(|node| (page, node))
    }

    /// Whether a page has a holder.
    pub(crate) fn is_held(&self, page: u32) -> bool {
        self.refs[page as usize] > 0
    }

    /// Pages that are free or can be evicted.
    pub(crate) fn available(&self) -> usize {
        self.free.len() + self.idle.len()
    }

    pub(crate) fn counts(&self) -> PageCounts {
        PageCounts {
            free: self.free.len(),
            private: self.private,
            cached: self.cached,
            evictable: self.idle.len(),
            total: self.refs.len(),
        }
    }

    /// Compares the pool with the holders of each page.
    ///
    /// # Errors
    ///
    /// A sentence about the first contradiction.
    pub(crate) fn check(&self, holders: &[u32]) -> Result<(), String> {
        let counts = self.counts();
        if counts.free + counts.private + counts.cached != counts.total {
            return Err(format!("the sum of {counts:?} is not the total"));
        }
        for (page, (&refs, &holders)) in self.refs.iter().zip(holders).enumerate() {
            if refs != holders {
                return Err(format!("page {page} has {refs} references and {holders} holders"));
            }
        }
        let count = |is: &dyn Fn(usize) -> bool| (0..self.refs.len()).filter(|&p| is(p)).count();
        let private = count(&|p| self.refs[p] > 0 && self.nodes[p].is_none());
        let cached = count(&|p| self.nodes[p].is_some());
        let idle = count(&|p| self.refs[p] == 0 && self.nodes[p].is_some());
        if (private, cached, idle) != (counts.private, counts.cached, self.idle.len()) {
            return Err(format!("{private} private, {cached} cached, {idle} idle: {counts:?}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_a_page() {
        let mut pool = PagePool::new(3);
        let (a, b) = (pool.alloc().unwrap(), pool.alloc().unwrap());
        assert_eq!((a, b), (0, 1));
        pool.cache(a, 7);
        pool.hold(a);
        pool.unhold(a);
        assert_eq!(pool.available(), 1);
        pool.unhold(a);
        assert_eq!((pool.available(), pool.oldest_idle()), (2, Some((a, 7))));
        pool.unhold(b);
        pool.check(&[0, 0, 0]).unwrap();
        assert!(pool.check(&[1, 0, 0]).is_err());
        pool.hold(a);
        assert_eq!(pool.oldest_idle(), None);
        pool.unhold(a);
        pool.evict(a);
        assert_eq!(pool.counts().free, 3);
    }

    #[test]
    fn the_page_left_first_is_evicted_first() {
        let mut pool = PagePool::new(4);
        let pages: Vec<u32> = (0..3).map(|_| pool.alloc().unwrap()).collect();
        for &page in &pages {
            pool.cache(page, page as usize);
        }
        for page in [1, 2, 0] {
            pool.unhold(page);
        }
        pool.hold(1);
        pool.unhold(1);
        let mut order = Vec::new();
        while let Some((page, _)) = pool.oldest_idle() {
            pool.evict(page);
            order.push(page);
        }
        assert_eq!(order, [2, 0, 1]);
    }
}
