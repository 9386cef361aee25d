//! Asking for keys and values before they are needed.

use crate::cache::Stored;

/// Bytes of a cache line.
const LINE: usize = 64;

/// What is read next, fetched line by line while something else is computed.
///
/// A page's keys or values are a few kilobytes, and the next ones lie elsewhere: too short for what
/// the processor fetches ahead by itself. Fetched all at once they would wait for each other.
#[derive(Debug)]
pub(super) struct Ahead {
    next: *const u8,
    end: *const u8,
    /// Bytes asked for so far that make no whole line.
    rest: usize,
}

impl Ahead {
    pub(super) fn new(stored: Stored<'_>) -> Self {
        let bytes = stored.bytes().as_ptr_range();
        Self { next: bytes.start, end: bytes.end, rest: 0 }
    }

    /// Fetches the next `bytes`.
    #[inline(always)]
    pub(super) fn fetch(&mut self, bytes: usize) {
        self.rest += bytes;
        while self.rest >= LINE {
            self.rest -= LINE;
            if self.next < self.end {
                prefetch(self.next);
                self.next = self.next.wrapping_add(LINE);
            }
        }
    }
}

/// Asks for a line of memory. Any address will do.
#[inline(always)]
fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint that needs no more than SSE and never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
