//! The number of prompt rows that one pass may have while other sequences decode.

use std::time::Duration;

use pelton_graph::PAGE;

/// The weight of the newest measurement in the moving averages.
const NEWEST: f64 = 0.3;

/// An exponential moving average of seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Average(Option<f64>);

impl Average {
    pub(crate) fn add(&mut self, seconds: f64) {
        self.0 = Some(match self.0 {
            None => seconds,
            Some(average) => average + NEWEST * (seconds - average),
        });
    }

    pub(crate) fn get(self) -> Option<f64> {
        self.0
    }
}

/// The time budget of passes over prompts, in rows of this machine.
#[derive(Debug)]
pub(crate) struct PrefillBudget {
    target: f64,
    per_row: Average,
    /// The most rows of a pass; a multiple of [`PAGE`].
    rows: usize,
}

impl PrefillBudget {
    pub(crate) fn new(target: Duration, rows: usize) -> Self {
        Self { target: target.as_secs_f64(), per_row: Average::default(), rows }
    }

    /// Notes that a pass over `rows` prompt rows took `time`.
    pub(crate) fn measured(&mut self, rows: usize, time: Duration) {
        if rows > 0 {
            self.per_row.add(time.as_secs_f64() / rows as f64);
        }
    }

    /// Rows that the next pass over prompts may have: all if no sequence decodes, or else as many
    /// whole pages as fit in the target, at least one. Before the first measurement that is one.
    pub(crate) fn rows(&self, decoding: bool) -> usize {
        if !decoding {
            return self.rows;
        }
        let fitting = match self.per_row.get() {
            // a cast from a float saturates
            Some(seconds) => (self.target / seconds.max(1e-12)) as usize,
            None => PAGE,
        };
        (fitting / PAGE * PAGE).clamp(PAGE, self.rows.max(PAGE))
    }
}

/// Splits the `budget` rows of one pass among prompts that run from `position` on, up to `end`.
/// Each gets an equal number of at least a page, which ends at the border of a page or at the
/// prompt's end.
pub(crate) fn split_rows(budget: usize, prompts: &[(usize, usize)]) -> Vec<usize> {
    let mut counts = vec![0; prompts.len()];
    let equal = (budget / prompts.len().max(1)).max(PAGE);
    let mut left = budget;
    // the second round hands out what short prompts have left
    for limit in [equal, budget] {
        for (count, &(position, end)) in counts.iter_mut().zip(prompts) {
            let room = limit.min(*count + left);
            let to = position + room;
            let aligned = if to >= end { end } else { to / PAGE * PAGE };
            let new = aligned.saturating_sub(position).max(*count);
            left -= new - *count;
            *count = new;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_budget() {
        let mut budget = PrefillBudget::new(Duration::from_millis(100), 512);
        assert_eq!((budget.rows(false), budget.rows(true)), (512, 64));
        budget.measured(100, Duration::from_millis(50));
        assert_eq!((budget.rows(false), budget.rows(true)), (512, 192));
        for _ in 0..100 {
            budget.measured(1, Duration::from_secs(1));
        }
        assert_eq!(budget.rows(true), 64);
        for _ in 0..100 {
            budget.measured(1000, Duration::ZERO);
        }
        assert_eq!(budget.rows(true), 512);
    }

    #[test]
    fn equal_shares_end_at_pages() {
        assert_eq!(split_rows(512, &[(0, 1000)]), [512]);
        assert_eq!(split_rows(512, &[(0, 1000), (64, 1000)]), [256, 256]);
        // the rest of the short one goes to the first
        assert_eq!(split_rows(512, &[(0, 1000), (64, 94)]), [448, 30]);
        assert_eq!(split_rows(128, &[(0, 1000), (0, 1000), (0, 1000)]), [64, 64, 0]);
        assert_eq!(split_rows(64, &[(128, 150), (0, 1000)]), [22, 0]);
        assert_eq!(split_rows(64, &[(128, 150), (0, 10)]), [22, 10]);
    }
}
