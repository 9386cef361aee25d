//! The merge loop of byte-pair encoding.
//!
//! Of all neighbours that can be joined, the pair of the lowest rank is joined, the leftmost of
//! equals, until none is left (Sennrich et al. 2016, algorithm 1). Short words are scanned for
//! the lowest rank; long ones keep it in a heap, so that a text of n symbols takes time in
//! n log n, whatever it holds.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A part of a word on its way to being a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Symbol {
    /// The token that these bytes are, or [`NO_TOKEN`](crate::lexicon::NO_TOKEN).
    pub(crate) id: u32,
    /// The first byte.
    pub(crate) start: u32,
    /// After the last byte.
    pub(crate) end: u32,
}

/// Two neighbours' join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Join {
    /// Lower ranks are joined first.
    pub(crate) rank: u32,
    /// The token that results.
    pub(crate) id: u32,
}

const NEVER: Join = Join { rank: u32::MAX, id: 0 };
const NONE: u32 = u32::MAX;

/// From this many symbols on a heap is faster than scanning.
const LONG: usize = 48;

/// Memory that is used again from word to word.
#[derive(Debug, Default)]
pub(crate) struct Merger {
    /// The word, to be filled before and read after [`Merger::run`].
    pub(crate) symbols: Vec<Symbol>,
    /// What each symbol makes with the next one.
    joins: Vec<Join>,
    /// The neighbours of each symbol that is left.
    links: Vec<(u32, u32)>,
    heap: BinaryHeap<Reverse<(u32, u32)>>,
}

impl Merger {
    /// Joins the symbols as long as `join` says that two neighbours can be joined.
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
            // A symbol that was joined since it was queued has another rank, or none.
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
