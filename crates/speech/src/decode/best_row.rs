//! The choice among the finished rows of a window.

use super::row::Row;

/// The index of the row with the greatest score, the first of equal ones. The score is the sum over
/// the length, or over `((5 + length) / 6)^alpha` (Wu et al., arXiv 1609.08144).
///
/// A row without tokens counts as one of length 1, by which OpenAI's code divides by 0.
pub(super) fn best(rows: &[Row], alpha: Option<f64>) -> usize {
    let mut best = 0;
    let mut greatest = f64::NEG_INFINITY;
    for (i, row) in rows.iter().enumerate() {
        let length = row.tokens.len() as f64;
        let penalty = match alpha {
            None => length.max(1.0),
            Some(alpha) => ((5.0 + length) / 6.0).powf(alpha),
        };
        let score = row.sum / penalty;
        if score > greatest {
            (best, greatest) = (i, score);
        }
    }
    best
}
