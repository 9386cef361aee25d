//! Panels: consecutive rows of a matrix that vectors hold in their lanes.

use super::job::Job;
use super::prefetch::RangePrefetch;
use super::vectors::Rows;

/// Up to as many consecutive rows of the result as a vector has lanes, computed together.
#[derive(Clone, Copy)]
pub(super) struct Panel {
    pub(super) rows: Rows,
    /// The row of the result in lane 0.
    pub(super) first: usize,
    /// Lanes to keep: from `skip`, `count` of them.
    pub(super) skip: usize,
    pub(super) count: usize,
}

/// The panel that computes rows from `row` on, up to `end`, in vectors of `lanes` lanes.
///
/// A panel that would reach beyond the matrix starts earlier and skips the lanes before `row`; a
/// matrix of fewer rows than lanes is computed row by row.
///
/// # Safety
/// `row < end`, and `end` is at most the matrix's number of rows.
#[inline(always)]
pub(super) unsafe fn panel(job: &Job<'_>, lanes: usize, row: usize, end: usize) -> Panel {
    let stride = job.row_bytes;
    let rows = job.matrix_rows;
    if job.packed {
        let first = row - row % lanes;
        // SAFETY: a packed panel has as many bytes as its rows.
        let start = unsafe { job.weights.add(first * stride) };
        let (skip, count) = (row - first, (first + lanes).min(end) - row);
        return Panel { rows: Rows { first: start, stride: 4, packed: lanes }, first, skip, count };
    }
    if rows < lanes {
        // SAFETY: the row lies inside of the matrix.
        let first = unsafe { job.weights.add(row * stride) };
        return Panel { rows: Rows { first, stride: 0, packed: 0 }, first: row, skip: 0, count: 1 };
    }
    let first = row.min(rows - lanes);
    let skip = row - first;
    // SAFETY: as above.
    let start = unsafe { job.weights.add(first * stride) };
    let count = (lanes - skip).min(end - row);
    Panel { rows: Rows { first: start, stride, packed: 0 }, first, skip, count }
}

/// Prefetches the weights of the job. A panel is read in all of its rows at once, so the
/// distance is a panel.
#[inline(always)]
pub(super) fn prefetch_job(job: &Job<'_>, lanes: usize) -> RangePrefetch {
    // packed panels are read one byte after the other
    prefetch_ahead(job, if job.packed { 0 } else { lanes * job.row_bytes })
}

/// Prefetches the weights of the job `lead` bytes ahead.
#[inline(always)]
pub(super) fn prefetch_ahead(job: &Job<'_>, lead: usize) -> RangePrefetch {
    let start = job.weights.wrapping_add(job.rows.start * job.row_bytes);
    RangePrefetch::new(start, job.rows.len() * job.row_bytes, lead)
}
