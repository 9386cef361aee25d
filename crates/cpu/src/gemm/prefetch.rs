//! Prefetches of weights.

use std::sync::LazyLock;

use super::vectors::Rows;
use crate::memory::prefetch::{LINE, Level, prefetch};

/// Bytes of a page: the range of the CPU's own prefetchers, and the smallest unit of address
/// translation.
const PAGE: usize = 4096;
/// Pages that are prefetched in turn.
const PAGES: usize = 8;

/// Bytes that packed rows are prefetched before their use by one activation row, on AMD's CPUs.
/// Rows of eight: of 768, 1024, 2048 and 4096 the distance at which all formats read fastest on two
/// cores of Zen 3. Rows of sixteen: Zen 4 reads fastest at 256 or without any, and 3 to 8 % slower
/// at 1024. Zen 5 reads K formats at three quarters of its speed without any, and up to 9 % faster
/// at 1024 than at 256.
const AMD_LEADS: [usize; 2] = [1024, 256];
/// The distance of [`RangePrefetch`] on other CPUs. Sixteen threads of an Emerald Rapids decoded an
/// 8B in Q4_0 at 24.7 and 25.8 tokens/s with it in AVX-512, and at 22.1 to 24.0 with single lines 1
/// to 8 KB ahead. Two threads of a Zen 5 are a quarter slower with it than with lines.
const OTHER_LEAD: usize = 8192;

/// How packed rows are prefetched for one activation row.
#[derive(Clone, Copy, Debug)]
pub(super) enum PackedPrefetch {
    /// Line by line.
    Lines(Lines),
    /// Several pages in turn this far ahead, by [`RangePrefetch`].
    Pages(usize),
}

/// Prefetches so many bytes ahead, line by line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines(usize);

/// A prefetch of bytes that are used one after the other.
pub(super) trait Ahead {
    /// Prefetches what is used some time after the `bytes` bytes at `from`, which are used next.
    fn advance(&mut self, from: *const u8, bytes: usize);
}

impl Ahead for Lines {
    #[inline(always)]
    fn advance(&mut self, from: *const u8, bytes: usize) {
        prefetch_packed(from, bytes, self.0);
    }
}

impl Ahead for RangePrefetch {
    #[inline(always)]
    fn advance(&mut self, _: *const u8, bytes: usize) {
        Self::advance(self, bytes);
    }
}

/// How this CPU prefetches packed rows of `lanes`, which is 8 or 16.
#[inline]
pub(super) fn packed_prefetch(lanes: usize) -> PackedPrefetch {
    static IS_AMD: LazyLock<bool> = LazyLock::new(is_amd);
    match *IS_AMD {
        true => PackedPrefetch::Lines(Lines(AMD_LEADS[usize::from(lanes == 16)])),
        false => PackedPrefetch::Pages(OTHER_LEAD),
    }
}

#[cfg(target_arch = "x86_64")]
fn is_amd() -> bool {
    let vendor = std::arch::x86_64::__cpuid(0);
    [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).as_flattened() == b"AuthenticAMD"
}

#[cfg(not(target_arch = "x86_64"))]
const fn is_amd() -> bool {
    false
}

/// As [`AMD_LEADS`], for few activation rows, which take longer than a wait for memory over what
/// one row has in flight: the best of 1024, 2048, 4096 and 8192 on Zen 5.
pub(super) const ROWS_LEAD: usize = 4096;

/// Prefetches a range of memory, some distance before its use.
///
/// Sequential requests reach two thirds of the memory's bandwidth (22 of 32 GB/s with two threads
/// of a Sapphire Rapids and pages of 4 KiB). Each new page is a wait: for its address, and for the
/// CPU's prefetchers, which stop at its end. Several pages in turn reach all of it: 27 GB/s with
/// two, 30 with four, 32 with eight.
#[derive(Debug)]
pub(super) struct RangePrefetch {
    /// The next line in the first of the pages.
    next: *const u8,
    end: *const u8,
    /// Bytes that should have been requested by now and were not.
    behind: isize,
}

impl RangePrefetch {
    /// Prefetches `len` bytes at `start` into the second-level cache, at least `lead` bytes before
    /// their use.
    #[inline(always)]
    pub(super) fn new(start: *const u8, len: usize, lead: usize) -> Self {
        Self {
            next: start.wrapping_sub(start.addr() % PAGE),
            end: start.wrapping_add(len),
            behind: (lead + PAGES * PAGE) as isize,
        }
    }

    /// Prefetches nothing.
    pub(super) const fn idle() -> Self {
        let next = std::ptr::null();
        Self { next, end: next, behind: isize::MIN }
    }

    /// Advances by the bytes that are used next.
    #[inline(always)]
    pub(super) fn advance(&mut self, bytes: usize) {
        self.behind += bytes as isize;
        while self.behind > 0 {
            self.behind -= (PAGES * LINE) as isize;
            let last = self.next.wrapping_add((PAGES - 1) * PAGE);
            for page in 0..PAGES {
                let line = self.next.wrapping_add(page * PAGE);
                if last < self.end || line < self.end {
                    prefetch(line, Level::Second);
                }
            }
            self.next = self.next.wrapping_add(LINE);
            if self.next.addr().is_multiple_of(PAGE) {
                self.next = last.wrapping_add(LINE);
            }
        }
    }
}

/// Prefetches `bytes` bytes of packed rows, which are used one after the other and lie in large
/// pages, into the first-level cache `lead` bytes before the use of those at `from`.
#[inline(always)]
pub(super) fn prefetch_packed(from: *const u8, bytes: usize, lead: usize) {
    for line in (0..bytes).step_by(LINE) {
        prefetch(from.wrapping_add(lead + line), Level::First);
    }
}

/// Lines at the begin of a page that are requested a page before their use.
const FIRST_LINES: usize = 8;

/// Prefetches the begin of the next page if the `bytes` bytes at `from` begin a page. They
/// are read one after the other, so the CPU's own prefetchers request the rest of a page;
/// they stop at its end.
#[inline(always)]
pub(super) fn prefetch_next_page(from: *const u8, bytes: usize) {
    if from.addr() % PAGE < bytes {
        for line in 0..FIRST_LINES {
            prefetch(from.wrapping_add(PAGE + line * LINE), Level::Second);
        }
    }
}

/// Prefetches `bytes` bytes of each of `count` rows into the second-level cache. The addresses need
/// not be valid.
#[inline(always)]
pub(super) fn prefetch_rows(rows: Rows, count: usize, bytes: usize) {
    for row in 0..count {
        for line in (0..bytes).step_by(LINE) {
            prefetch(rows.first.wrapping_add(row * rows.stride + line), Level::Second);
        }
    }
}
