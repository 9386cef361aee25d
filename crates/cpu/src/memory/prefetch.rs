//! Prefetch hints to the CPU.

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;

/// The cache that a line is prefetched into.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Level {
    /// The first-level cache.
    First,
    /// The first-level cache, for a write.
    FirstToWrite,
    /// The second-level cache.
    Second,
}

/// Prefetches the cache line at an address, which need not be valid.
#[inline(always)]
pub(crate) fn prefetch(address: *const u8, level: Level) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: hints never fault, and CPUs that lack one ignore it.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_ET0, _MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        match level {
            Level::First => _mm_prefetch::<_MM_HINT_T0>(address.cast()),
            Level::FirstToWrite => _mm_prefetch::<_MM_HINT_ET0>(address.cast()),
            Level::Second => _mm_prefetch::<_MM_HINT_T1>(address.cast()),
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (address, level);
}
