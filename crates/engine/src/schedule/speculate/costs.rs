//! The measured times of decoding passes by their rows.

use std::{collections::BTreeMap, time::Duration};

/// The weight of the newest measurement.
const NEWEST: f64 = 0.25;
/// Decoding passes after which the time of passes without drafts is measured again.
const PLAIN_AGE: u64 = 256;
/// Decoding passes after which the times of passes with drafts and of the draft model are
/// forgotten, so that they may be tried again.
const DRAFT_AGE: u64 = 1024;

/// Measurements of plain passes before which their time is not known, where submissions with more
/// and more repeats take less and less time for each.
const GROWTH: u32 = 4;

#[derive(Clone, Copy, Debug)]
struct Time {
    seconds: f64,
    /// The number of the pass that was measured last.
    measured: u64,
    /// The most repeats of a measured submission.
    repeat: u32,
    /// Measurements since the last long pause.
    count: u32,
}

/// Moving averages of times, by rows.
#[derive(Debug, Default)]
struct Times(BTreeMap<usize, Time>);

impl Times {
    fn add(&mut self, rows: usize, seconds: f64, now: u64) {
        self.add_repeats(rows, seconds, 1, now);
    }

    /// Adds the time of one of the passes of a submission. Those with more repeats replace those
    /// with fewer, which take longer.
    fn add_repeats(&mut self, rows: usize, seconds: f64, repeat: u32, now: u64) {
        let new = Time { seconds, measured: now, repeat, count: 1 };
        let time = self.0.entry(rows).or_insert(Time { count: 0, ..new });
        if now - time.measured > PLAIN_AGE {
            (time.repeat, time.count) = (0, 0);
        }
        time.count += 1;
        time.measured = now;
        if repeat >= 2 * time.repeat.max(1) {
            (time.seconds, time.repeat) = (seconds, repeat);
        } else if 2 * repeat > time.repeat {
            // one pass that had to wait for another process says little
            let seconds = seconds.min(2.0 * time.seconds);
            time.seconds += NEWEST * (seconds - time.seconds);
            time.repeat = time.repeat.max(repeat);
        }
    }
}

/// The measured times of decoding passes, in seconds by rows.
#[derive(Debug, Default)]
pub(crate) struct PassCosts {
    /// Passes of one row a sequence.
    plain: Times,
    /// Passes with drafts: those that the host knew, and those that the passes of a draft model
    /// have handed on, with the time of these.
    drafts: [Times; 2],
    /// The draft model's time for one token of each sequence, by sequences.
    model: Times,
    /// Whether a pass with drafts of each kind, and whether the draft model, has run: the first
    /// time of each counts for nothing, as kernels that never ran are slow on a GPU.
    warm: [bool; 3],
    passes: u64,
    /// Measurements of plain passes before which their time is not known.
    least: u32,
}

impl PassCosts {
    /// Nothing is measured. `repeats` tells whether submissions of plain passes have more and more
    /// repeats.
    pub(crate) fn new(repeats: bool) -> Self {
        Self { least: if repeats { GROWTH } else { 1 }, ..Self::default() }
    }

    /// Notes the time of a pass of one row for each of `rows` sequences, one of
    /// `repeat` of a submission.
    pub(crate) fn add_plain(&mut self, rows: usize, time: f64, repeat: u32) {
        self.passes += 1;
        self.plain.add_repeats(rows, time, repeat, self.passes);
        self.forget();
    }

    /// Notes the time of a pass with drafts. `found` says that it found them on the device.
    pub(crate) fn add_drafts(&mut self, rows: usize, time: Duration, found: bool) {
        self.passes += 1;
        let kind = usize::from(found);
        if std::mem::replace(&mut self.warm[kind], true) {
            self.drafts[kind].add(rows, time.as_secs_f64(), self.passes);
        }
        self.forget();
    }

    fn forget(&mut self) {
        for times in self.drafts.iter_mut().chain([&mut self.model]) {
            times.0.retain(|_, time| self.passes - time.measured <= DRAFT_AGE);
        }
    }

    /// Notes the draft model's time for one token of each of `sequences` sequences.
    pub(crate) fn add_model(&mut self, sequences: usize, time: f64) {
        if std::mem::replace(&mut self.warm[2], true) {
            self.model.add(sequences, time, self.passes);
        }
    }

    /// The time of a pass of one row for each of `rows` sequences. `None` before it is measured,
    /// and now and then so that it is measured again.
    pub(crate) fn plain(&self, rows: usize) -> Option<f64> {
        let time = self.plain.0.get(&rows)?;
        let is_new = self.passes - time.measured <= PLAIN_AGE && time.count >= self.least;
        is_new.then_some(time.seconds)
    }

    /// As [`plain`](Self::plain), whenever it was measured.
    pub(crate) fn known_plain(&self, rows: usize) -> Option<f64> {
        self.plain.0.get(&rows).map(|time| time.seconds)
    }

    /// Rows of a pass with drafts that may be tried, where `sequences` rows have no draft: twice as
    /// many as were measured.
    pub(crate) fn rows_to_try(&self, sequences: usize, found: bool) -> usize {
        let most = self.drafts[usize::from(found)].0.last_key_value().map_or(0, |(rows, _)| *rows);
        2 * most.max(sequences)
    }

    /// The time of a pass with drafts, of `rows` rows for `sequences` sequences. A pass without
    /// drafts takes `plain`. Between measured times it is interpolated by rows, and above them it
    /// is the last one. If `found`, the pass finds the drafts on the device, and its time
    /// includes the draft model's.
    pub(crate) fn drafts(&self, rows: usize, sequences: usize, plain: f64, found: bool) -> f64 {
        let times = &self.drafts[usize::from(found)].0;
        let below = times.range(sequences + 1..=rows).next_back();
        let (low, least) = below.map_or((sequences, plain), |(rows, time)| (*rows, time.seconds));
        let least = least.max(plain);
        match times.range(rows + 1..).next() {
            Some((high, time)) if rows > low => {
                let part = (rows - low) as f64 / (high - low) as f64;
                least + part * (time.seconds.max(least) - least)
            }
            _ => least,
        }
    }

    /// The draft model's time for one token of each of `sequences` sequences, as measured for the
    /// nearest number of sequences; 0 before that.
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
        let mut costs = PassCosts::new(false);
        assert_eq!((costs.plain(1), costs.rows_to_try(3, false)), (None, 6));
        costs.add_plain(1, 1.0, 1);
        assert_eq!(costs.plain(1), Some(1.0));
        let drafts = |costs: &PassCosts, rows| costs.drafts(rows, 1, 1.0, false);
        assert_eq!(drafts(&costs, 2), 1.0);
        costs.add_drafts(4, Duration::from_secs(90), false);
        assert_eq!(drafts(&costs, 4), 1.0);
        costs.add_drafts(4, Duration::from_secs(4), false);
        assert_eq!([2, 3, 4, 8].map(|rows| drafts(&costs, rows)), [2.0, 3.0, 4.0, 4.0]);
        assert_eq!(costs.rows_to_try(1, false), 8);
        costs.add_drafts(8, Duration::from_secs(2), false);
        // never faster than fewer rows
        assert_eq!(drafts(&costs, 8), 2.0);
        assert_eq!(drafts(&costs, 6), 4.0);
        // drafts that are found on the device have times of their own
        assert_eq!((costs.drafts(8, 1, 1.0, true), costs.rows_to_try(1, true)), (1.0, 2));
        (0..2).for_each(|_| costs.add_drafts(2, Duration::from_secs(3), true));
        assert_eq!((costs.drafts(8, 1, 1.0, true), costs.rows_to_try(1, true)), (3.0, 4));
        // an outlier counts as twice the average
        costs.add_plain(1, 100.0, 1);
        assert_eq!(costs.plain(1), Some(1.25));
    }

    #[test]
    fn more_repeats_replace_fewer() {
        let mut costs = PassCosts::new(true);
        for (repeat, time) in [(1, 9.0), (2, 5.0), (4, 3.0)] {
            costs.add_plain(1, time, repeat);
            assert_eq!((costs.plain(1), costs.known_plain(1)), (None, Some(time)));
        }
        costs.add_plain(1, 2.0, 8);
        assert_eq!(costs.plain(1), Some(2.0));
        // far fewer repeats do not change the time, a few less do
        costs.add_plain(1, 9.0, 4);
        assert_eq!(costs.plain(1), Some(2.0));
        costs.add_plain(1, 1.0, 7);
        assert_eq!(costs.plain(1), Some(1.75));
        for _ in 0..=PLAIN_AGE {
            costs.add_drafts(5, Duration::from_secs(1), true);
        }
        assert_eq!(costs.plain(1), None);
        costs.add_plain(1, 3.0, 1);
        assert_eq!((costs.plain(1), costs.known_plain(1)), (None, Some(2.0625)));
    }

    #[test]
    fn old_times_are_measured_again() {
        let mut costs = PassCosts::new(false);
        costs.add_plain(1, 1.0, 1);
        costs.add_drafts(9, Duration::from_secs(1), false);
        costs.add_drafts(9, Duration::from_secs(1), false);
        for _ in 0..=DRAFT_AGE {
            costs.add_drafts(5, Duration::from_secs(1), false);
        }
        assert_eq!((costs.plain(1), costs.known_plain(1)), (None, Some(1.0)));
        assert_eq!(costs.rows_to_try(1, false), 10);
        // the first counts for nothing, and one that was much too long is forgotten
        costs.add_model(1, 90.0);
        assert_eq!(costs.model(1), 0.0);
        costs.add_model(1, 9.0);
        (0..DRAFT_AGE).for_each(|_| costs.add_plain(1, 1.0, 1));
        assert_eq!(costs.model(1), 9.0);
        costs.add_plain(1, 1.0, 1);
        assert_eq!((costs.model(1), costs.rows_to_try(1, false)), (0.0, 2));
    }
}
