//! Numbers for the rows of pictures.

use std::{collections::HashMap, ops::Range};

use super::shown::Key;

/// The most pictures whose numbers are kept.
const KEPT: usize = 1 << 16;

/// A number for each row of each distinct picture: they are above all tokens, and equal for equal
/// pictures only. A number is never used again.
#[derive(Debug)]
pub(super) struct Identities {
    next: u32,
    known: HashMap<Key, Range<u32>>,
}

impl Identities {
    /// Numbers from `first` on.
    pub(super) fn new(first: u32) -> Self {
        Self { next: first, known: HashMap::new() }
    }

    /// The numbers of the rows of a picture; `None` if there are none left. A picture of long ago
    /// may have other ones than before.
    pub(super) fn of(&mut self, key: &Key, rows: u32) -> Option<Range<u32>> {
        if let Some(known) = self.known.get(key) {
            return Some(known.clone());
        }
        let numbers = self.next..self.next.checked_add(rows)?;
        self.next = numbers.end;
        if self.known.len() >= KEPT {
            self.known.clear();
        }
        self.known.insert(*key, numbers.clone());
        Some(numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_of_one_picture() {
        let mut all = Identities::new(100);
        assert_eq!(all.of(&[1; 32], 4), Some(100..104));
        assert_eq!(all.of(&[2; 32], 4), Some(104..108));
        assert_eq!(all.of(&[1; 32], 4), Some(100..104));
        let mut last = Identities::new(u32::MAX - 5);
        assert!(last.of(&[1; 32], 4).is_some());
        assert_eq!(last.of(&[2; 32], 4), None);
    }
}
