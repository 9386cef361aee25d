//! The codes of a tile that a row multiplies.

use super::pack::LANES;
use super::select::Entry;
use crate::memory::prefetch::{Level, prefetch};

/// Inputs between a prefetch and its use.
const LEAD: usize = 6;

/// The codes of one tile, and the entries that multiply them.
pub(super) struct Tile<'a> {
    /// `[cols, ranks, 16]`.
    pub(super) codes: &'a [u16],
    pub(super) ranks: usize,
    pub(super) entries: &'a [Entry],
}

impl Tile<'_> {
    /// The words of an entry, `[its ranks, 16]`.
    #[inline(always)]
    pub(super) fn words(&self, entry: &Entry) -> &[[u16; LANES]] {
        let of_input = self.ranks * LANES;
        let codes = &self.codes[entry.input as usize * of_input..][..of_input];
        &codes.as_chunks().0[..self.ranks.min(entry.ranks as usize)]
    }

    /// Prefetches the words of the entry some inputs after entry `i`.
    #[inline(always)]
    pub(super) fn prefetch(&self, i: usize) {
        if let Some(entry) = self.entries.get(i + LEAD) {
            for words in self.words(entry).iter().step_by(2) {
                prefetch(words.as_ptr().cast(), Level::First);
            }
        }
    }
}
