//! Pages of one cache group that several hypotheses can hold.

/// The pages of a cache group, with the number of holders of each.
#[derive(Debug)]
pub(super) struct Pages {
    free: Vec<u32>,
    holders: Vec<u32>,
}

impl Pages {
    pub(super) fn new(pages: usize) -> Self {
        // allocated from the end, so that the first pages become resident first
        Self { free: (0..pages as u32).rev().collect(), holders: vec![0; pages] }
    }

    /// Allocates a page for one holder, if one is free.
    pub(super) fn alloc(&mut self) -> Option<u32> {
        let page = self.free.pop()?;
        self.holders[page as usize] = 1;
        Some(page)
    }

    /// Adds a holder.
    pub(super) fn hold(&mut self, page: u32) {
        self.holders[page as usize] += 1;
    }

    /// Removes a holder; a page without one is free.
    pub(super) fn unhold(&mut self, page: u32) {
        let holders = &mut self.holders[page as usize];
        debug_assert!(*holders > 0, "page {page} has no holder");
        *holders = holders.saturating_sub(1);
        if *holders == 0 {
            self.free.push(page);
        }
    }

    /// Whether a page has several holders, so that none of them may write to it.
    pub(super) fn is_shared(&self, page: u32) -> bool {
        self.holders[page as usize] > 1
    }

    pub(super) fn free(&self) -> usize {
        self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_free_without_holders() {
        let mut pages = Pages::new(2);
        let page = pages.alloc().unwrap();
        pages.hold(page);
        assert!(pages.is_shared(page));
        pages.unhold(page);
        assert!(!pages.is_shared(page));
        assert_eq!(pages.free(), 1);
        pages.unhold(page);
        assert_eq!(pages.free(), 2);
        assert!(pages.alloc().is_some() && pages.alloc().is_some() && pages.alloc().is_none());
    }
}
