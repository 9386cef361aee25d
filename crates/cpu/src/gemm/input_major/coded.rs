//! The codes and scales of a block of 32 inputs.

use std::marker::PhantomData;

use super::layout::{self, block, line};
use super::lines::Lines;

/// Outputs that a kernel computes at a time.
pub(super) const RUN: usize = 128;

/// Pointers to the scales and the codes of a block of 32 inputs in a slab (`layout.rs`).
#[derive(Clone, Copy)]
pub(super) struct BlockAt {
    pub(super) scales: *const u8,
    /// Its lines: of upper halves, then of lower ones.
    pub(super) lines: *const u8,
    /// Outputs of the slab.
    pub(super) outputs: usize,
}

impl BlockAt {
    /// Block `index` of the slab at `slab`.
    ///
    /// # Safety
    /// There is such a block.
    #[inline(always)]
    pub(super) unsafe fn new(slab: *const u8, outputs: usize, index: usize) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let scales = slab.add(index * block(outputs));
            Self { scales, lines: scales.add(2 * outputs), outputs }
        }
    }

    /// The scales of `LANES` outputs from output `output` on.
    ///
    /// # Safety
    /// The outputs are of the slab, and the instructions of `S` exist.
    #[inline(always)]
    pub(super) unsafe fn scale<S: Lines>(&self, output: usize) -> S::F {
        // SAFETY: the caller's promise.
        unsafe { S::load_f16(self.scales.add(2 * output)) }
    }

    /// The first line of a half: 0 for the upper one, and 1.
    #[inline(always)]
    pub(super) fn first_line(&self, half: usize) -> *const u8 {
        self.lines.wrapping_add(half * layout::lines(self.outputs))
    }
}

/// The lines of a run of outputs, in vectors.
pub(super) struct LineSegment<S>(PhantomData<S>);

impl<S: Lines> LineSegment<S> {
    /// Vectors of codes that a segment of lines gives.
    pub(super) const VECTORS: usize = 8;
    /// Segments of a run.
    pub(super) const COUNT: usize = RUN / (Self::VECTORS * S::LANES);

    /// The first output of vector `vector` of segment `segment` of a run.
    #[inline(always)]
    pub(super) const fn output(segment: usize, vector: usize) -> usize {
        // segments of 64 bytes
        let of_chunk = 16 / S::LANES;
        let (chunk, within) = (segment / of_chunk, segment % of_chunk);
        chunk * 128 + vector / 4 * 64 + vector % 4 * 16 + within * S::LANES
    }

    /// The byte of a line at which a segment of a run begins.
    #[inline(always)]
    pub(super) const fn place(run: usize, segment: usize) -> usize {
        run * line(RUN) + segment * 4 * S::LANES
    }
}
