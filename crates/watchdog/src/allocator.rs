//! An allocator that counts the bytes in use.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Bytes in use.
static LIVE: AtomicUsize = AtomicUsize::new(0);
/// The most bytes in use since a watch began.
static PEAK: AtomicUsize = AtomicUsize::new(0);
/// The bytes in use from which on allocations fail.
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);

/// The system's allocator, counted. It belongs into a static with `#[global_allocator]`.
#[derive(Debug, Default)]
pub struct Counting;

impl Counting {
    /// The allocator.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

// SAFETY: every call goes to the system's allocator with the caller's own layout and pointer. A
// refused allocation returns null, which the trait allows. Counters do not touch the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !take(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the contract of `alloc`, which is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !take(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the pointer came from the system's allocator with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !take(size) {
            return std::ptr::null_mut();
        }
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as in `dealloc`; the caller keeps the contract about the new size.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Counts an allocation, unless it goes beyond the limit.
///
/// One refusal lifts the limit: the process reports it and ends, and the report needs memory. The
/// peak has the refused bytes, so code that goes on without them is found too. A panic has no
/// limit: its report is a finding.
fn take(bytes: usize) -> bool {
    let live = LIVE.fetch_add(bytes, Relaxed).saturating_add(bytes);
    PEAK.fetch_max(live, Relaxed);
    if live > LIMIT.load(Relaxed) && !std::thread::panicking() {
        LIVE.fetch_sub(bytes, Relaxed);
        LIMIT.store(usize::MAX, Relaxed);
        return false;
    }
    true
}

/// A watch over the bytes in use. Its end lifts the limit.
pub(crate) struct Watched {
    start: usize,
}

/// Begins a watch: allocations fail once `limit` bytes more are in use.
pub(crate) fn watch(limit: usize) -> Watched {
    let probe = LIVE.load(Relaxed);
    drop(std::hint::black_box(Box::new([0_u8; 64])));
    let counts = PEAK.load(Relaxed) > 0 && probe > 0;
    assert!(counts, "pelton_watchdog::Counting is not the allocator of this process");
    let start = LIVE.load(Relaxed);
    PEAK.store(start, Relaxed);
    LIMIT.store(start.saturating_add(limit), Relaxed);
    Watched { start }
}

impl Watched {
    /// The most bytes in use above those at the start.
    pub(crate) fn peak(&self) -> usize {
        PEAK.load(Relaxed).saturating_sub(self.start)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        LIMIT.store(usize::MAX, Relaxed);
    }
}
