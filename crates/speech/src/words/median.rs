//! The median filter along positions.

use std::cmp::Ordering;

/// Replaces each value of a row by the median of the `width` values around it. Beyond the ends the
/// row is reflected. A row of at most `width / 2` values stays unchanged, and NaN is above all
/// other values.
///
/// `width` is odd.
pub fn median_filter(row: &mut [f32], width: usize) {
    let half = width / 2;
    if row.len() <= half {
        return;
    }
    let before = row[1..=half].iter().rev();
    let after = row[row.len() - 1 - half..row.len() - 1].iter().rev();
    let padded: Vec<f32> = before.chain(row.iter()).chain(after).copied().collect();
    let mut sorted = Vec::with_capacity(width);
    for (value, around) in row.iter_mut().zip(padded.windows(2 * half + 1)) {
        sorted.clear();
        sorted.extend_from_slice(around);
        sorted.sort_by(nan_last);
        *value = sorted[half];
    }
}

/// The order of values with every NaN last.
fn nan_last(a: &f32, b: &f32) -> Ordering {
    a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}
