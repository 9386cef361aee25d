//! The measured times of decoding passes by their rows.

use std::{collections::BTreeMap, time::Duration};

/// The weight of the newest measurement.
const NEWEST: f64 = 0.25;
/// Decoding passes after which the time of passes without drafts is measured again.
const PLAIN_AGE: u64 = 256;
/// Decoding passes after which the times of passes with drafts and of the draft model are forgotten,
/// so that they may be tried again.
const DRAFT_AGE: u64 = 1024;

#[derive(Clone, Copy, Debug)]
struct Time {
    seconds: f64,
    /// The number of the pass that was measured last.
    measured: u64,
}

/// Moving averages of times, by rows.
#[derive(Debug, Default)]
struct Times(BTreeMap<usize, Time>);

impl Times {
    fn add(&mut self, rows: usize, seconds: f64, now: u64) {
        match self.0.get_mut(&rows) {
            Some(time) => {
                // one pass that had to wait for another process says little
                let seconds = seconds.min(2.0 * time.seconds);
                time.seconds += NEWEST * (seconds - time.seconds);
                time.measured = now;
            }
            None => {
                self.0.insert(rows, Time { seconds, measured: now });
            }
        }
    }
}

/// The measured times of decoding passes, in seconds by rows.
#[derive(Debug, Default)]
pub(crate) struct PassCosts {
    /// Passes of one row a sequence.
    plain: Times,
    /// Passes with drafts.
    drafts: Times,
    /// The draft model's time for one token of each sequence, by sequences.
    model: Times,
    /// Whether a pass with drafts, and whether the draft model, has run: the first time of each counts
    /// for nothing, as kernels that never ran are slow on a GPU.
    warm: [bool; 2],
    passes: u64,
}

impl PassCosts {
    /// Notes the time of a pass of one row for each of `rows` sequences.
    pub(crate) fn add_plain(&mut self, rows: usize, time: f64) {
        self.passes += 1;
        self.plain.add(rows, time, self.passes);
        self.forget();
    }

    /// Notes the time of a pass with drafts.
    pub(crate) fn add_drafts(&mut self, rows: usize, time: Duration) {
        self.passes += 1;
        if std::mem::replace(&mut self.warm[0], true) {
            self.drafts.add(rows, time.as_secs_f64(), self.passes);
        }
        self.forget();
    }

    fn forget(&mut self) {
        for times in [&mut self.drafts, &mut self.model] {
            times.0.retain(|_, time| self.passes - time.measured <= DRAFT_AGE);
        }
    }

    /// Notes the draft model's time for one token of each of `sequences` sequences.
    pub(crate) fn add_model(&mut self, sequences: usize, time: f64) {
        if std::mem::replace(&mut self.warm[1], true) {
            self.model.add(sequences, time, self.passes);
        }
    }

    /// The time of a pass of one row for each of `rows` sequences. `None` before it is measured,
    /// and now and then so that it is measured again.
    pub(crate) fn plain(&self, rows: usize) -> Option<f64> {
        let time = self.plain.0.get(&rows)?;
        (self.passes - time.measured <= PLAIN_AGE).then_some(time.seconds)
    }

    /// As [`plain`](Self::plain), whenever it was measured.
    pub(crate) fn known_plain(&self, rows: usize) -> Option<f64> {
        self.plain.0.get(&rows).map(|time| time.seconds)
    }

    /// Rows of a pass with drafts that may be tried, where `sequences` rows have no draft: twice as
    /// many as were measured.
    pub(crate) fn rows_to_try(&self, sequences: usize) -> usize {
        let most = self.drafts.0.last_key_value().map_or(0, |(rows, _)| *rows);
        2 * most.max(sequences)
    }

    /// The time of a pass of `rows` rows, a few of which are drafts, where one of `sequences` rows
    /// takes `plain`. It is in proportion to the rows between measured times, and the last one's
    /// after that.
    pub(crate) fn drafts(&self, rows: usize, sequences: usize, plain: f64) -> f64 {
        let below = self.drafts.0.range(sequences + 1..=rows).next_back();
        let (low, least) = below.map_or((sequences, plain), |(rows, time)| (*rows, time.seconds));
        let least = least.max(plain);
        match self.drafts.0.range(rows + 1..).next() {
            Some((high, time)) if rows > low => {
                let part = (rows - low) as f64 / (high - low) as f64;
                least + part * (time.seconds.max(least) - least)
            }
            _ => least,
        }
    }

    /// The draft model's time for one token of each of `sequences` sequences: that of the nearest
    /// number of sequences; 0 before it is measured.
    pub(crate) fn model(&self, sequences: usize) -> f64 {
        let nearest = self.model.0.iter().min_by_key(|(rows, _)| rows.abs_diff(sequences));
        nearest.map_or(0.0, |(_, time)| time.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_between_and_after_measured_ones() {
        let mut costs = PassCosts::default();
        assert_eq!((costs.plain(1), costs.rows_to_try(3)), (None, 6));
        costs.add_plain(1, 1.0);
        assert_eq!(costs.plain(1), Some(1.0));
        assert_eq!(costs.drafts(2, 1, 1.0), 1.0);
        costs.add_drafts(4, Duration::from_secs(90));
        assert_eq!(costs.drafts(4, 1, 1.0), 1.0);
        costs.add_drafts(4, Duration::from_secs(4));
        assert_eq!([2, 3, 4, 8].map(|rows| costs.drafts(rows, 1, 1.0)), [2.0, 3.0, 4.0, 4.0]);
        assert_eq!(costs.rows_to_try(1), 8);
        costs.add_drafts(8, Duration::from_secs(2));
        // never faster than fewer rows
        assert_eq!(costs.drafts(8, 1, 1.0), 2.0);
        assert_eq!(costs.drafts(6, 1, 1.0), 4.0);
        // an outlier counts as twice the average
        costs.add_plain(1, 100.0);
        assert_eq!(costs.plain(1), Some(1.25));
    }

    #[test]
    fn old_times_are_measured_again() {
        let mut costs = PassCosts::default();
        costs.add_plain(1, 1.0);
        costs.add_drafts(9, Duration::from_secs(1));
        costs.add_drafts(9, Duration::from_secs(1));
        for _ in 0..=DRAFT_AGE {
            costs.add_drafts(5, Duration::from_secs(1));
        }
        assert_eq!((costs.plain(1), costs.known_plain(1)), (None, Some(1.0)));
        assert_eq!(costs.rows_to_try(1), 10);
        // the first counts for nothing, and one that was much too long is forgotten
        costs.add_model(1, 90.0);
        assert_eq!(costs.model(1), 0.0);
        costs.add_model(1, 9.0);
        (0..DRAFT_AGE).for_each(|_| costs.add_plain(1, 1.0));
        assert_eq!(costs.model(1), 9.0);
        costs.add_plain(1, 1.0);
        assert_eq!((costs.model(1), costs.rows_to_try(1)), (0.0, 2));
    }
}
