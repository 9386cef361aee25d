//! The number of drafted tokens that a pass verifies.

/// The most drafted tokens of one sequence in a pass: with the row before them they fill the 16
/// rows that every backend computes bit for bit as each alone.
pub(crate) const DRAFT_MAX: usize = 15;

/// The least gain for which drafts are verified.
const GAIN_MIN: f64 = 1.03;

/// Drafted tokens of each sequence.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Choice {
    /// Numbers of tokens `[sequences]`.
    pub(crate) counts: Vec<usize>,
    /// The expected speed relative to a pass without drafts.
    pub(crate) gain: f64,
}

impl Choice {
    /// Whether any token is drafted.
    pub(crate) fn is_some(&self) -> bool {
        self.counts.iter().any(|&count| count > 0)
    }
}

/// The drafted tokens with which a pass is expected to give most tokens a second.
///
/// `chances` are for each sequence those that its first, first two and so on drafted tokens are all
/// accepted, in descending order. A pass without drafts takes `plain`, one of some rows `cost`, and
/// at most `rows` are possible.
pub(crate) fn choose(
    chances: &[&[f64]],
    rows: usize,
    plain: f64,
    cost: impl Fn(usize) -> f64,
) -> Choice {
    let sequences = chances.len();
    let none = Choice { counts: vec![0; sequences], gain: 1.0 };
    let ranked = ranked(chances, rows.saturating_sub(sequences));
    let (mut expected, mut best, mut gain) = (sequences as f64, 0, GAIN_MIN);
    for (n, &(chance, _)) in (1..).zip(&ranked) {
        expected += chance;
        let speed = expected / sequences as f64 * plain / cost(sequences + n).max(1e-12);
        if speed > gain {
            (best, gain) = (n, speed);
        }
    }
    if best == 0 {
        return none;
    }
    Choice { counts: counts(&ranked[..best], sequences), gain }
}

/// As many drafted tokens as a pass of `rows` rows can have, the likeliest first.
pub(crate) fn all(chances: &[&[f64]], rows: usize) -> Choice {
    let ranked = ranked(chances, rows.saturating_sub(chances.len()));
    Choice { counts: counts(&ranked, chances.len()), gain: 1.0 }
}

/// The likeliest tokens of all sequences, with their sequences.
fn ranked(chances: &[&[f64]], most: usize) -> Vec<(f64, usize)> {
    let each = chances.iter().enumerate();
    let mut all: Vec<(f64, usize)> =
        each.flat_map(|(i, chances)| chances.iter().map(move |&chance| (chance, i))).collect();
    // a stable sort: of one sequence the first tokens come first
    all.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    all.truncate(most);
    all
}

fn counts(ranked: &[(f64, usize)], sequences: usize) -> Vec<usize> {
    let mut counts = vec![0; sequences];
    for &(_, i) in ranked {
        counts[i] += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_rows_are_all_used_and_dear_ones_are_not() {
        let likely = [0.9, 0.8, 0.7];
        let free = choose(&[&likely], 16, 1.0, |_| 1.0);
        assert_eq!(free.counts, [3]);
        assert!((free.gain - 3.4).abs() < 1e-9);
        assert!(!choose(&[&likely], 16, 1.0, |rows| rows as f64).is_some());
        // a gain of 1.02 is not worth it
        assert!(!choose(&[&[0.02]], 16, 1.0, |_| 1.0).is_some());
        assert_eq!(choose(&[&likely], 2, 1.0, |_| 1.0).counts, [1]);
    }

    #[test]
    fn the_likeliest_tokens_of_all_sequences() {
        let (a, b): (&[f64], &[f64]) = (&[0.9, 0.5, 0.1], &[0.6, 0.59]);
        // 0.3 for each row: those above it pay
        let choice = choose(&[a, b, &[]], 16, 3.0, |rows| 3.0 + 0.5 * (rows - 3) as f64);
        assert_eq!(choice.counts, [1, 2, 0]);
        assert_eq!(all(&[a, b, &[]], 7).counts, [2, 2, 0]);
        assert_eq!(all(&[a, b, &[]], 2).counts, [0, 0, 0]);
    }
}
