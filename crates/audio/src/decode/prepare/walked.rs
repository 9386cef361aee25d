//! The outcome of a walk over a header.

use crate::decode::input::{Change, Input};
use std::ops::Range;

/// Chunks or blocks of a header at most.
pub(super) const CHUNKS: usize = 4_096;

/// The part with the audio, and the changes of its bytes.
pub(super) struct Walked {
    pub(super) part: Range<u64>,
    pub(super) changes: Vec<Change>,
    /// The starts of tracks, as `(track, ticks of its media)`.
    pub(super) starts: Vec<(u32, u64)>,
    /// The paddings at the ends of tracks, as `(track, nanoseconds)`.
    pub(super) paddings: Vec<(u32, u64)>,
}

impl Walked {
    /// All bytes as they are.
    pub(super) fn whole(input: &Input) -> Self {
        Self {
            part: 0..input.length(),
            changes: Vec::new(),
            starts: Vec::new(),
            paddings: Vec::new(),
        }
    }
}
