//! Who has which page of the key and value caches.

use pelton_graph::pages_for;

/// The pages that nobody has.
#[derive(Debug)]
pub(crate) struct PagePool {
    free: Vec<u32>,
}

impl PagePool {
    pub(crate) fn new(pages: usize) -> Self {
        // taken from the end, so that the first pages are used, and so made resident, first
        Self { free: (0..pages as u32).rev().collect() }
    }

    /// Pages for `positions` positions, or `None` if too few are free.
    pub(crate) fn take(&mut self, positions: usize) -> Option<Vec<u32>> {
        let left = self.free.len().checked_sub(pages_for(positions))?;
        let mut taken = self.free.split_off(left);
        taken.reverse();
        Some(taken)
    }

    pub(crate) fn give_back(&mut self, pages: Vec<u32>) {
        self.free.extend(pages.into_iter().rev());
    }
}

#[cfg(test)]
mod tests {
    use pelton_graph::PAGE;

    use super::*;

    #[test]
    fn pages_are_handed_out_once() {
        let mut pool = PagePool::new(4);
        let a = pool.take(PAGE + 1).unwrap();
        let b = pool.take(1).unwrap();
        assert_eq!((a.as_slice(), b.as_slice()), ([0, 1].as_slice(), [2].as_slice()));
        assert_eq!(pool.take(2 * PAGE), None);
        pool.give_back(a);
        assert_eq!(pool.take(3 * PAGE).unwrap(), [0, 1, 3]);
    }
}
