//! The lookup of n-grams: earlier occurrences of the end of a sequence (prompt lookup decoding).

use std::collections::HashMap;

/// Lengths of the n-grams that are indexed, in tokens; the longest one with a match decides.
const LENGTHS: [usize; 3] = [8, 4, 2];
/// Occurrences of an n-gram that are compared, the newest ones.
const CANDIDATES: usize = 8;
/// The most tokens of a match that are counted.
const LONGEST: usize = 64;
/// Tokens at the end of a text that are indexed when it is given.
const INDEXED: usize = 1 << 15;
const NONE: u32 = u32::MAX;

/// An earlier occurrence of the end of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Match {
    /// The position of the token after it.
    pub(super) at: usize,
    /// Tokens that are equal, at most [`LONGEST`].
    pub(super) length: usize,
}

/// An index of the n-grams of a text, by the position of the token after each.
#[derive(Debug)]
pub(super) struct Lookup {
    /// The first position that is indexed.
    first: usize,
    tables: [Table; LENGTHS.len()],
}

#[derive(Debug, Default)]
struct Table {
    /// The newest position after each n-gram, by its hash.
    newest: HashMap<u64, u32>,
    /// For each position the one before it with the same hash, or [`NONE`].
    before: Vec<u32>,
}

impl Lookup {
    /// An index of all n-grams of a text that have a token after them.
    pub(super) fn new(text: &[u32]) -> Self {
        let first = text.len().saturating_sub(INDEXED);
        let mut lookup = Self { first, tables: Default::default() };
        for at in first..text.len() {
            lookup.insert(text, at);
        }
        lookup
    }

    /// Indexes the n-grams that end before `at`, a position of the text: the one after the position
    /// that was indexed last.
    pub(super) fn insert(&mut self, text: &[u32], at: usize) {
        for (table, length) in self.tables.iter_mut().zip(LENGTHS) {
            debug_assert_eq!(table.before.len(), at - self.first);
            let ngram = at.checked_sub(length).map(|from| &text[from..at]);
            let before = ngram.and_then(|ngram| table.newest.insert(hash(ngram), at as u32));
            table.before.push(before.unwrap_or(NONE));
        }
    }

    /// The longest of the newest occurrences in `text`, the indexed one, of the end of `sequence`.
    pub(super) fn find(&self, text: &[u32], sequence: &[u32]) -> Option<Match> {
        for (table, length) in self.tables.iter().zip(LENGTHS) {
            let Some(from) = sequence.len().checked_sub(length) else { continue };
            let mut best: Option<Match> = None;
            let mut at = table.newest.get(&hash(&sequence[from..])).copied().unwrap_or(NONE);
            for _ in 0..CANDIDATES {
                if at == NONE {
                    break;
                }
                let end = at as usize;
                let pairs = text[..end].iter().rev().zip(sequence.iter().rev());
                let equal = pairs.take(LONGEST).take_while(|(a, b)| a == b).count();
                if equal >= length && best.is_none_or(|best| equal > best.length) {
                    best = Some(Match { at: end, length: equal });
                }
                at = table.before[end - self.first];
            }
            if best.is_some() {
                return best;
            }
        }
        None
    }
}

/// A hash of an n-gram (FNV-1a over whole tokens). Equal hashes are compared token by token.
fn hash(ngram: &[u32]) -> u64 {
    let seed = 0xcbf2_9ce4_8422_2325;
    ngram.iter().fold(seed, |hash, &token| {
        (hash ^ u64::from(token)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The longest occurrence among all, by comparison of every position.
    fn longest(text: &[u32]) -> usize {
        let common = |at: usize| {
            let pairs = text[..at].iter().rev().zip(text.iter().rev());
            pairs.take(LONGEST).take_while(|(a, b)| a == b).count()
        };
        (1..text.len()).map(common).max().unwrap_or(0)
    }

    proptest! {
        #[test]
        fn finds_what_a_search_of_all_positions_finds(
            text in prop::collection::vec(0u32..6, 1..60), given in 0usize..60,
        ) {
            let given = given.min(text.len());
            let mut lookup = Lookup::new(&text[..given]);
            for at in given..text.len() {
                lookup.insert(&text, at);
            }
            let longest = longest(&text);
            match lookup.find(&text, &text) {
                None => prop_assert!(longest < 2),
                Some(Match { at, length }) => {
                    prop_assert_eq!(&text[at - length..at], &text[text.len() - length..]);
                    prop_assert!(at < text.len() && length <= longest);
                    // the newest occurrences only
                    let class = |length| LENGTHS.iter().position(|&least| length >= least);
                    prop_assert_eq!(class(length), class(longest));
                }
            }
        }
    }

    #[test]
    fn the_end_of_a_long_text_is_indexed() {
        let text: Vec<u32> = (0..INDEXED as u32 + 100).collect();
        let lookup = Lookup::new(&text);
        assert_eq!(lookup.find(&text, &[40, 41, 42]), None);
        let found = lookup.find(&text, &[7, 1000, 1001]);
        assert_eq!(found, Some(Match { at: 1002, length: 2 }));
    }
}
