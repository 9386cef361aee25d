//! The product of many rows with lines of codes: a run of outputs is unpacked once for all of them.

use super::super::activations::Block;
use super::super::kernels;
use super::super::tile::{Coding, Tile};
use super::coded::{BlockAt, Coded, LineSegment, RUN};
use super::lines::Lines;

/// Rows that a kernel multiplies at a time.
pub(super) const ROWS: usize = 4;

/// Unpacks all inputs of a run of a block to tiles `[RUN / LANES]`, in the order of outputs.
///
/// # Safety
/// The block exists, the instructions of `S` too, and there is room for the tiles.
#[inline(always)]
pub(super) unsafe fn unpack<S: Lines, K: Coded>(at: &BlockAt, run: usize, to: *mut Tile<S>) {
    // SAFETY: the caller's promise.
    unsafe {
        let line = K::FIELDS.line(at.outputs) as u32;
        for segment in 0..LineSegment::<S, K>::COUNT {
            for group in 0..8 {
                let lines = [0, 1, 2, 3].map(|i| (4 * group as u32 + i) * line);
                let codes = LineSegment::<S, K>::codes(at, lines, run, segment);
                for (vector, codes) in codes.iter().enumerate().take(LineSegment::<S, K>::VECTORS) {
                    let tile = to.add(LineSegment::<S, K>::output(segment, vector) / S::LANES);
                    (*tile).codes[group] = *codes;
                }
            }
            for vector in 0..LineSegment::<S, K>::VECTORS {
                let output = LineSegment::<S, K>::output(segment, vector);
                let tile = to.add(output / S::LANES);
                [(*tile).scale, (*tile).min] = K::scales::<S>(at, run * RUN + output);
            }
        }
        for tile in 0..RUN / S::LANES {
            kernels::add_magnitudes::<S, <K as Coded>::Coding>(to.add(tile));
        }
    }
}

/// Adds the products of `ROWS` rows with unpacked tiles to their sums `[tiles, ROWS, LANES]`.
///
/// # Safety
/// The tiles have been unpacked, the instructions of `S` exist, and there are as many sums.
#[inline(always)]
pub(super) unsafe fn add<S: Lines, K: Coded, const NR: usize>(
    tiles: *const Tile<S>,
    x: [*const Block; ROWS],
    sums: *mut f32,
) {
    // SAFETY: the caller's promise; `NR` divides the tiles of a run.
    unsafe {
        for tile in (0..RUN / S::LANES).step_by(NR) {
            let mut totals = [[S::splat(0.0); ROWS]; NR];
            let sums = sums.add(tile * ROWS * S::LANES);
            for (i, total) in totals.as_flattened_mut().iter_mut().enumerate() {
                *total = S::load_f32(sums.add(i * S::LANES).cast_const().cast());
            }
            let mut at = [tiles.add(tile); NR];
            for (i, at) in at.iter_mut().enumerate() {
                *at = at.add(i);
            }
            kernels::multiply::<S, <K as Coded>::Coding, NR, ROWS>(at, x, &mut totals);
            for (i, total) in totals.as_flattened().iter().enumerate() {
                S::store(*total, sums.add(i * S::LANES));
            }
        }
    }
}

/// Whether a coding has what [`add`] multiplies.
pub(super) const fn is_known<C: Coding>() -> bool {
    !(C::HALVES && C::MIN)
}
