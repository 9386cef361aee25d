//! The memory of a thread for unpacked weights and sums, reused between products.

use std::cell::Cell;

use crate::memory::AlignedBuf;

thread_local! {
    static SCRATCH: Cell<AlignedBuf> = Cell::default();
}

/// Allocates at least `bytes` bytes with any contents, from the memory of this thread.
pub(super) fn alloc(bytes: usize) -> AlignedBuf {
    let mut buffer = SCRATCH.take();
    buffer.grow(bytes.div_ceil(size_of::<f32>()));
    buffer
}

/// Returns the memory to this thread.
pub(super) fn free(buffer: AlignedBuf) {
    SCRATCH.set(buffer);
}
