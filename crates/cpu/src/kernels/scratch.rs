//! Memory of a thread for unpacked weights and for sums, kept between products.

use std::cell::Cell;

use super::prefetch::LINE;

/// The unit in which it is allocated.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Line(
    #[expect(dead_code, reason = "only its size and alignment matter")] [u8; LINE],
);

thread_local! {
    static SCRATCH: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// Takes this thread's memory, at least `bytes` of it, whatever they hold.
pub(super) fn take(bytes: usize) -> Vec<Line> {
    let mut lines = SCRATCH.take();
    if lines.len() < bytes.div_ceil(LINE) {
        lines.resize(bytes.div_ceil(LINE), Line([0; LINE]));
    }
    lines
}

/// Gives it back for the next product.
pub(super) fn give_back(lines: Vec<Line>) {
    SCRATCH.set(lines);
}
