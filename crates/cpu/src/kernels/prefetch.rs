//! Asking for weights before they are needed.

use super::tile::Rows;

/// What a processor's own prefetchers follow at a time, and the smallest unit of address
/// translation.
const PAGE: usize = 4096;
/// Pages that are walked through side by side.
const PAGES: usize = 8;
pub(super) const LINE: usize = 64;

/// Fetches a stretch of memory into the second-level cache, some way ahead of its use.
///
/// Requests in plain order reach two thirds of the memory's bandwidth (22 of 32 GB/s with two
/// threads of a Sapphire Rapids and pages of 4 KiB), as each new page is a wait: for its
/// address, and for the processor's prefetchers, which do not look beyond it. Several pages in
/// turn reach all of it: 27 GB/s with two, 30 with four, 32 with eight.
#[derive(Debug)]
pub(super) struct Prefetch {
    /// The next line in the first of the pages.
    next: *const u8,
    end: *const u8,
    /// Bytes still to be asked for by now.
    behind: isize,
}

impl Prefetch {
    /// Of `len` bytes at `start`, at least `lead` bytes ahead of what is used.
    #[inline(always)]
    pub(super) fn new(start: *const u8, len: usize, lead: usize) -> Self {
        Self {
            next: start.wrapping_sub(start.addr() % PAGE),
            end: start.wrapping_add(len),
            behind: (lead + PAGES * PAGE) as isize,
        }
    }

    /// Goes on by as many bytes as are about to be used.
    #[inline(always)]
    pub(super) fn advance(&mut self, bytes: usize) {
        self.behind += bytes as isize;
        while self.behind > 0 {
            self.behind -= (PAGES * LINE) as isize;
            let last = self.next.wrapping_add((PAGES - 1) * PAGE);
            for page in 0..PAGES {
                let line = self.next.wrapping_add(page * PAGE);
                if last < self.end || line < self.end {
                    fetch(line);
                }
            }
            self.next = self.next.wrapping_add(LINE);
            if self.next.addr().is_multiple_of(PAGE) {
                self.next = last.wrapping_add(LINE);
            }
        }
    }
}

/// Asks for a line of memory in the second-level cache. Any address will do.
#[inline(always)]
fn fetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint that needs no more than SSE and never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Asks for `bytes` bytes of each of `count` rows. Any addresses will do.
#[inline(always)]
pub(super) fn fetch_rows(rows: Rows, count: usize, bytes: usize) {
    for row in 0..count {
        for line in (0..bytes).step_by(LINE) {
            fetch(rows.first.wrapping_add(row * rows.stride + line));
        }
    }
}

/// Asks for a line of memory in the first-level cache. Any address will do.
#[inline(always)]
pub(super) fn fetch_near(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as above.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Asks for a line of memory that is about to be written. Any address will do.
#[inline(always)]
pub(super) fn fetch_to_write(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as above.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_ET0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
