//! The number of prompt rows that one pass may have while other sequences decode, by
//! measured times and targets.

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
            // one pass that had to wait for another process says little
            Some(average) => average + NEWEST * (seconds.min(4.0 * average) - average),
        });
    }

    pub(crate) fn get(self) -> Option<f64> {
        self.0
    }
}

/// The weight of the newest pass in [`PromptTime`], which needs several passes of different sizes.
const NEWEST_PROMPT: f64 = 0.1;
/// The spread of the rows of passes, relative to their mean, from which the fixed part of their
/// time is computed again.
const SPREAD: f64 = 0.2;
/// Decoding passes in whose time one over prompts may last, where that makes it cheaper.
const DECODES: f64 = 6.0;
/// The fixed parts in whose time a pass over prompts may last for that reason: then it loses an
/// eighth.
const FIXED_PARTS: f64 = 8.0;
/// The fraction of the time left to a first token that is aimed at: others arrive meanwhile.
const AIM: f64 = 0.3;

/// The time of passes over prompts: a fixed part, and one for each row, by weighted least squares.
#[derive(Debug, Default)]
struct PromptTime {
    /// Sums over passes, by their weights: 1, rows, seconds, rows² and rows · seconds.
    sums: [f64; 5],
    /// The fixed part in seconds.
    fixed: f64,
}

impl PromptTime {
    fn add(&mut self, rows: f64, seconds: f64) {
        let values = [1.0, rows, seconds, rows * rows, rows * seconds];
        for (sum, value) in self.sums.iter_mut().zip(values) {
            *sum += NEWEST_PROMPT * (value - *sum);
        }
        let [weight, rows, seconds, squares, products] = self.sums;
        let (rows, seconds) = (rows / weight, seconds / weight);
        let variance = squares / weight - rows * rows;
        // passes of one size say nothing about the fixed part
        if variance > (SPREAD * rows).powi(2) {
            let slope = (products / weight - rows * seconds) / variance;
            self.fixed = seconds - slope.max(0.0) * rows;
        }
    }

    /// The fixed seconds of a pass, and the seconds of each row; `None` before the first pass.
    fn parts(&self) -> Option<(f64, f64)> {
        let [weight, rows, seconds, ..] = self.sums;
        if weight == 0.0 {
            return None;
        }
        let (rows, seconds) = (rows / weight, seconds / weight);
        // rows take time, whatever the noise of a few passes says
        let fixed = self.fixed.clamp(0.0, 0.9 * seconds);
        Some((fixed, ((seconds - fixed) / rows).max(1e-12)))
    }
}

/// The times that the scheduler aims at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Targets {
    /// From a request's arrival to its first token.
    pub(crate) first: Duration,
    /// Between two tokens.
    pub(crate) between: Duration,
    /// The most time of a pass over prompts while other sequences decode.
    pub(crate) prefill: Duration,
}

/// A prompt that is being computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitingPrompt {
    /// Rows to be run.
    pub(crate) rows: usize,
    /// The time since its arrival.
    pub(crate) age: Duration,
}

/// The time budget of passes over prompts, in rows of this machine.
#[derive(Debug)]
pub(crate) struct PrefillBudget {
    targets: Targets,
    time: PromptTime,
    /// The most rows of a pass; a multiple of [`PAGE`].
    rows: usize,
    /// Whether a pass of few rows takes as long as one of many.
    is_whole: bool,
}

impl PrefillBudget {
    pub(crate) fn new(targets: Targets, rows: usize) -> Self {
        Self { targets, time: PromptTime::default(), rows, is_whole: false }
    }

    /// The budget of passes that are filled if `is_whole`, because they take as long with
    /// few rows as with many.
    pub(crate) fn of_whole_passes(self, is_whole: bool) -> Self {
        Self { is_whole, ..self }
    }

    /// Notes that a pass over `rows` prompt rows took `time`.
    pub(crate) fn measured(&mut self, rows: usize, time: Duration) {
        if rows > 0 {
            self.time.add(rows as f64, time.as_secs_f64());
        }
    }

    /// The seconds that a pass over `rows` prompt rows will take; 0 before the first measurement.
    pub(crate) fn seconds(&self, rows: usize) -> f64 {
        self.time.parts().map_or(0.0, |(fixed, row)| fixed + row * rows as f64)
    }

    /// Rows that the next pass over these prompts may have: all if no sequence decodes, or else as
    /// many whole pages as fit into its time, at least one. Before the first measurement that is
    /// one. `decode` are the seconds of a decoding pass, if sequences decode.
    pub(crate) fn rows(&self, decode: Option<f64>, prompts: &[WaitingPrompt]) -> usize {
        let Some(decode) = decode.filter(|_| !self.is_whole) else { return self.rows };
        let fitting = match self.time.parts() {
            Some((fixed, row)) => {
                let seconds = self.pass_seconds(decode, prompts, fixed, row);
                // a cast from a float saturates
                ((seconds - fixed) / row) as usize
            }
            None => PAGE,
        };
        (fitting / PAGE * PAGE).clamp(PAGE, self.rows.max(PAGE))
    }

    /// Rows of prompts in the next pass, which has `decoding` decoding rows too: whole
    /// pages, at least one.
    pub(crate) fn rows_beside(&self, decoding: usize, prompts: &[WaitingPrompt]) -> usize {
        self.rows(Some(0.0), prompts)
            .saturating_sub(decoding.next_multiple_of(PAGE))
            .max(PAGE)
            .min(self.rows.saturating_sub(decoding))
    }

    /// The seconds of the next pass over prompts, between two decoding passes of
    /// `decode` seconds each.
    fn pass_seconds(&self, decode: f64, prompts: &[WaitingPrompt], fixed: f64, row: f64) -> f64 {
        let [first, between, most] = {
            let Targets { first, between, prefill } = self.targets;
            [first, between, prefill].map(|time| time.as_secs_f64())
        };
        // sequences that decode have their next token in time
        let smooth = between - decode;
        // passes over prompts are many where many decode, and their fixed parts add up
        let cheap = (DECODES * decode).min(FIXED_PARTS * fixed);
        // prompts alternate with decoding passes until their first tokens; prompts that cannot be
        // in time do not count
        let (mut needed, mut left) = (fixed, f64::INFINITY);
        for prompt in prompts {
            let own = prompt.rows as f64 * row;
            if own <= first {
                needed += own;
                left = left.min(AIM * (first - prompt.age.as_secs_f64()));
            }
        }
        let urgent = if left > needed { needed * decode / (left - needed) } else { most };
        smooth.max(cheap).max(urgent).min(most)
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

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn budget(first: u64, between: u64) -> PrefillBudget {
        let targets = Targets { first: MS(first), between: MS(between), prefill: MS(100) };
        PrefillBudget::new(targets, 512)
    }

    #[test]
    fn rows_of_a_budget() {
        // no target is in reach: the most time
        let mut budget = budget(0, 0);
        let late = [WaitingPrompt { rows: 1, age: MS(1) }];
        let rows = |budget: &PrefillBudget| {
            (
                budget.rows(None, &late),
                budget.rows(Some(1e-3), &[WaitingPrompt { rows: 0, ..late[0] }]),
            )
        };
        assert_eq!(rows(&budget), (512, 64));
        budget.measured(100, MS(50));
        assert_eq!(rows(&budget), (512, 192));
        for _ in 0..200 {
            budget.measured(1, Duration::from_secs(1));
        }
        assert_eq!(rows(&budget).1, 64);
        for _ in 0..400 {
            budget.measured(1000, Duration::ZERO);
        }
        assert_eq!(rows(&budget).1, 512);
    }

    #[test]
    fn the_fixed_part_of_a_time_is_found() {
        let mut time = PromptTime::default();
        assert!(time.parts().is_none());
        for rows in [64.0, 512.0, 128.0, 256.0, 64.0, 320.0] {
            time.add(rows, 0.006 + 8e-5 * rows);
        }
        let (fixed, row) = time.parts().unwrap();
        assert!((fixed - 0.006).abs() < 1e-6 && (row - 8e-5).abs() < 1e-8, "{fixed} {row}");
        // passes of one size keep it
        for _ in 0..100 {
            time.add(256.0, 0.006 + 256.0 * 8e-5);
        }
        let (fixed, row) = time.parts().unwrap();
        assert!((fixed - 0.006).abs() < 1e-5 && (row - 8e-5).abs() < 1e-7, "{fixed} {row}");
    }

    /// Passes that stream weights are as few as possible.
    #[test]
    fn passes_that_stream_are_whole() {
        let mut budget = budget(500, 25).of_whole_passes(true);
        for _ in 0..9 {
            budget.measured(64, MS(400));
        }
        let prompts = [WaitingPrompt { rows: 2000, age: MS(0) }];
        assert_eq!(budget.rows(Some(0.02), &prompts), 512);
        assert_eq!(budget.rows_beside(20, &prompts), 448);
        assert_eq!(budget.of_whole_passes(false).rows(Some(0.02), &prompts), 64);
    }

    /// An 8B on a GPU, as measured: 6.6 ms and 0.079 ms a row.
    fn of_a_gpu() -> PrefillBudget {
        let mut budget = budget(500, 25);
        for rows in [64, 512, 128, 256] {
            budget.measured(rows, Duration::from_micros(6600 + 79 * rows as u64));
        }
        budget
    }

    #[test]
    fn few_that_decode_get_their_tokens_in_time() {
        let budget = of_a_gpu();
        let prompt = [WaitingPrompt { rows: 325, age: MS(5) }];
        // 25 ms less a decoding pass of 2.4 ms: 16 ms for rows
        assert_eq!(budget.rows(Some(0.0024), &prompt), 192);
        assert!(budget.seconds(192) + 0.0024 <= 0.025);
    }

    #[test]
    fn many_that_decode_wait_longer_for_fewer_passes() {
        let budget = of_a_gpu();
        let prompt = [WaitingPrompt { rows: 325, age: MS(5) }];
        // eight fixed parts, which are less than six decoding passes of 11 ms
        assert_eq!(budget.rows(Some(0.011), &prompt), 512);
        // without a fixed part smaller passes lose nothing
        let mut free = self::budget(500, 25);
        for rows in [64, 256] {
            free.measured(rows, Duration::from_micros(79 * rows as u64));
        }
        assert_eq!(free.rows(Some(0.011), &prompt), 128);
    }

    #[test]
    fn prompts_that_are_late_get_the_most_time_and_endless_ones_do_not() {
        // a row takes 1 ms
        let rows = |prompts: &[WaitingPrompt]| {
            let targets = Targets { first: MS(500), between: MS(25), prefill: MS(300) };
            let mut budget = PrefillBudget::new(targets, 512);
            for rows in [64, 256] {
                budget.measured(rows, MS(rows as u64));
            }
            budget.rows(Some(0.001), prompts)
        };
        // a page is more than a token's time, and enough for a prompt that has just come
        assert_eq!(rows(&[WaitingPrompt { rows: 64, age: MS(0) }]), 64);
        let late = WaitingPrompt { rows: 100, age: MS(400) };
        assert_eq!(rows(&[late]), 256);
        // no time is enough for its first token, so others go on
        let endless = WaitingPrompt { rows: 30_000, age: MS(0) };
        assert_eq!(rows(&[endless]), 64);
        assert_eq!(rows(&[endless, late]), 256);
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
