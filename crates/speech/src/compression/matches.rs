//! The search for repeated strings, as zlib's `deflate_slow` at level 6.

/// The shortest and the longest match in bytes.
const MIN: usize = 3;
const MAX: usize = 258;
/// The greatest distance of a match: zlib keeps a margin below its window of 32 KiB.
const MAX_DISTANCE: usize = (1 << 15) - (MAX + MIN + 1);
/// A match of [`MIN`] bytes is worth less than literals beyond this distance.
const TOO_FAR: usize = 4096;
/// Level 6: a search is shortened after a match this long.
const GOOD: usize = 8;
/// Level 6: no better match is searched for after one this long.
const LAZY: usize = 16;
/// Level 6: a match this long ends a search.
const NICE: usize = 128;
/// Level 6: candidates of a search.
const CHAIN: usize = 128;
const HASH_BITS: usize = 15;
/// No position: zlib has no matches with the first byte.
const NONE: usize = 0;

/// An element of the compressed text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Symbol {
    Literal(u8),
    Match { length: usize, distance: usize },
}

/// Positions by the hash of the three bytes there.
struct Chains<'a> {
    /// The text, then zeros, which a comparison may read.
    bytes: &'a [u8],
    /// The newest position of each hash.
    head: Vec<usize>,
    /// The position before each one with the same hash.
    previous: Vec<usize>,
}

impl Chains<'_> {
    /// Inserts a position. Returns the newest one before it with the same hash.
    fn insert(&mut self, at: usize) -> usize {
        let [a, b, c] = [0, 1, 2].map(|i| usize::from(self.bytes[at + i]));
        let hash = (a << 10 ^ b << 5 ^ c) & ((1 << HASH_BITS) - 1);
        let before = std::mem::replace(&mut self.head[hash], at);
        self.previous[at] = before;
        before
    }

    /// The longest match of the string at `at` that is longer than `best`, as (start, length).
    fn longest(
        &self,
        mut from: usize,
        at: usize,
        best: usize,
        left: usize,
    ) -> Option<(usize, usize)> {
        let oldest = at.saturating_sub(MAX_DISTANCE);
        let nice = NICE.min(left);
        let mut best = best;
        let mut found = None;
        let mut chain = if best >= GOOD { CHAIN / 4 } else { CHAIN };
        loop {
            let pairs = self.bytes[from..].iter().zip(&self.bytes[at..at + MAX]);
            let length = pairs.take_while(|(a, b)| a == b).count();
            if length > best {
                (best, found) = (length, Some((from, length.min(left))));
                if length >= nice {
                    return found;
                }
            }
            from = self.previous[from];
            chain -= 1;
            if from <= oldest || chain == 0 {
                return found;
            }
        }
    }
}

/// The symbols of a text.
pub(super) fn symbols(text: &[u8]) -> Vec<Symbol> {
    let end = text.len();
    let bytes: Vec<u8> = text.iter().copied().chain([0; MAX + MIN]).collect();
    let mut chains =
        Chains { bytes: &bytes, head: vec![NONE; 1 << HASH_BITS], previous: vec![NONE; end] };
    let mut symbols = Vec::new();
    let mut at = 0;
    // the match at the byte before, which is taken if the one here is not longer
    let mut length = MIN - 1;
    let mut start = 0;
    let mut literal_pending = false;
    while at < end {
        let left = end - at;
        let candidate = if left >= MIN { chains.insert(at) } else { NONE };
        let (last_length, last_start) = (length, start);
        length = MIN - 1;
        if candidate != NONE && last_length < LAZY && at - candidate <= MAX_DISTANCE {
            // without a longer one zlib keeps the length, which then is no longer than the last
            length = last_length.min(left);
            if let Some(found) = chains.longest(candidate, at, last_length, left) {
                (start, length) = found;
            }
            if length == MIN && at - start > TOO_FAR {
                length = MIN - 1;
            }
        }
        if last_length >= MIN && length <= last_length {
            symbols.push(Symbol::Match { length: last_length, distance: at - 1 - last_start });
            let after = at - 1 + last_length;
            for inner in at + 1..after {
                if inner + MIN <= end {
                    chains.insert(inner);
                }
            }
            at = after;
            literal_pending = false;
            length = MIN - 1;
        } else {
            if literal_pending {
                symbols.push(Symbol::Literal(bytes[at - 1]));
            }
            literal_pending = true;
            at += 1;
        }
    }
    if literal_pending {
        symbols.push(Symbol::Literal(bytes[end - 1]));
    }
    symbols
}
