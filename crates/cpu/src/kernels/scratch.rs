//! Memory of a thread for unpacked weights and for sums, kept between products.

use std::cell::Cell;

use crate::lines::Lines;

thread_local! {
    static SCRATCH: Cell<Lines> = Cell::default();
}

/// Takes this thread's memory, at least `bytes` of it, whatever they hold.
pub(super) fn take(bytes: usize) -> Lines {
    let mut lines = SCRATCH.take();
    lines.grow(bytes.div_ceil(size_of::<f32>()));
    lines
}

/// Gives it back for the next product.
pub(super) fn give_back(lines: Lines) {
    SCRATCH.set(lines);
}
