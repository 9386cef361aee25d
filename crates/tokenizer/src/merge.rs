//! The merge loop of byte-pair encoding.
//!
//! Each iteration merges the adjacent pair of the lowest rank, the leftmost among equals, until no
//! pair has a merge (Sennrich et al. 2016, algorithm 1). In short words a linear scan finds the
//! lowest rank. Long words use a heap, so that n symbols take O(n log n) time in the worst case.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A segment of a word during merging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Symbol {
    /// The token with these bytes, or [`NO_TOKEN`](crate::lexicon::NO_TOKEN).
    pub(crate) id: u32,
    /// Offset of the first byte.
    pub(crate) start: u32,
    /// Offset after the last byte.
    pub(crate) end: u32,
}

/// The merge of two adjacent symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Join {
    /// Priority: lower ranks are merged first.
    pub(crate) rank: u32,
    /// The resulting token.
    pub(crate) id: u32,
}

const NEVER: Join = Join { rank: u32::MAX, id: 0 };
const NONE: u32 = u32::MAX;

/// Number of symbols from which on the heap is faster than the scan.
const LONG: usize = 48;

/// Merge loop with buffers that are reused between words.
#[derive(Debug, Default)]
pub(crate) struct Merger {
    /// The symbols of the word: input and output of [`Merger::run`].
    pub(crate) symbols: Vec<Symbol>,
    /// The merge of each symbol with its successor.
    joins: Vec<Join>,
    /// Predecessor and successor of each remaining symbol.
    links: Vec<(u32, u32)>,
    heap: BinaryHeap<Reverse<(u32, u32)>>,
}

impl Merger {
    /// Merges the symbols until `join` returns `None` for all adjacent pairs.
    pub(crate) fn run(&mut self, join: impl Fn(Symbol, Symbol) -> Option<Join>) {
        let join = |left, right| join(left, right).unwrap_or(NEVER);
        self.joins.clear();
        self.joins.extend(self.symbols.windows(2).map(|pair| join(pair[0], pair[1])));
        if self.symbols.len() < LONG { self.scan(join) } else { self.queue(join) }
    }

    fn scan(&mut self, join: impl Fn(Symbol, Symbol) -> Join) {
        let Self { symbols, joins, .. } = self;
        while let Some((at, best)) =
            joins.iter().copied().enumerate().min_by_key(|(_, found)| found.rank)
        {
            if best == NEVER {
                break;
            }
            symbols[at].id = best.id;
            symbols[at].end = symbols[at + 1].end;
            symbols.remove(at + 1);
            joins.remove(at);
            if let Some(next) = symbols.get(at + 1) {
                joins[at] = join(symbols[at], *next);
            }
            if at > 0 {
                joins[at - 1] = join(symbols[at - 1], symbols[at]);
            }
        }
    }

    fn queue(&mut self, join: impl Fn(Symbol, Symbol) -> Join) {
        let Self { symbols, joins, links, heap, .. } = self;
        let count = symbols.len() as u32;
        links.clear();
        links.extend((0..count).map(|at| {
            (at.checked_sub(1).unwrap_or(NONE), if at + 1 < count { at + 1 } else { NONE })
        }));
        joins.push(NEVER);
        heap.clear();
        heap.extend(
            (0..count)
                .zip(&*joins)
                .filter(|(_, found)| **found != NEVER)
                .map(|(at, found)| Reverse((found.rank, at))),
        );
        while let Some(Reverse((rank, at))) = heap.pop() {
            let here = at as usize;
            // An entry is stale if the symbol's merge has changed since it was queued.
            if joins[here].rank != rank || joins[here] == NEVER {
                continue;
            }
            let (before, right) = links[here];
            let after = links[right as usize].1;
            symbols[here].id = joins[here].id;
            symbols[here].end = symbols[right as usize].end;
            joins[right as usize] = NEVER;
            symbols[right as usize].end = symbols[right as usize].start;
            links[here].1 = after;
            if after != NONE {
                links[after as usize].0 = at;
            }
            let mut update = |left: u32, right: u32| {
                let found = if left == NONE || right == NONE {
                    NEVER
                } else {
                    join(symbols[left as usize], symbols[right as usize])
                };
                if left != NONE {
                    joins[left as usize] = found;
                }
                if found != NEVER {
                    heap.push(Reverse((found.rank, left)));
                }
            };
            update(before, at);
            update(at, after);
        }
        symbols.retain(|symbol| symbol.start < symbol.end);
    }
}
