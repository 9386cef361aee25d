//! Prefetches of keys and values while the page before them is computed.

use crate::memory::{
    Stored,
    prefetch::{LINE, Level, prefetch},
};

/// The memory of a page's keys or values, prefetched line by line in the pace of the computation.
///
/// The keys or values of a head in a page are a few kilobytes, and those of the next page lie
/// elsewhere: too short a stretch for the CPU's own prefetchers. Prefetched all at once, the lines
/// would wait for each other.
#[derive(Debug)]
pub(super) struct Prefetch {
    next: *const u8,
    end: *const u8,
    /// Bytes requested so far that make no whole line.
    rest: usize,
}

impl Prefetch {
    pub(super) fn new(stored: Stored<'_>) -> Self {
        let bytes = stored.bytes().as_ptr_range();
        Self { next: bytes.start, end: bytes.end, rest: 0 }
    }

    /// Prefetches nothing.
    pub(super) fn none() -> Self {
        let next = std::ptr::null();
        Self { next, end: next, rest: 0 }
    }

    /// Prefetches the next `bytes`.
    #[inline(always)]
    pub(super) fn advance(&mut self, bytes: usize) {
        self.rest += bytes;
        while self.rest >= LINE {
            self.rest -= LINE;
            if self.next < self.end {
                prefetch(self.next, Level::Second);
                self.next = self.next.wrapping_add(LINE);
            }
        }
    }
}
