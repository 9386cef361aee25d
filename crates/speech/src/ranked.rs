//! The likeliest tokens of a row of logits, in place of the logits.

use std::cmp::Ordering;

use crate::decode::likeliest_tokens;
use crate::softmax::LogSumExp;

/// The parts of a row of filtered logits that the decoding rules need.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    /// The tokens before the first timestamp.
    pub others: Part,
    /// The timestamps.
    pub timestamps: Part,
}

/// The likeliest tokens of a part of the vocabulary.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The greatest logit; -∞ if no token is allowed.
    pub greatest: f32,
    /// The sum of `exp(logit - greatest)` over the allowed tokens, 0 if there is none.
    pub sum: f64,
    /// Tokens with their logits: descending, equal logits by token.
    pub likeliest: Vec<(u32, f32)>,
}

impl Part {
    fn of(logits: &[f32], first: u32, count: usize) -> Self {
        let sum = LogSumExp::of(logits);
        let likeliest = likeliest_tokens(logits, count);
        Self {
            greatest: sum.greatest,
            sum: if likeliest.is_empty() { 0.0 } else { sum.rest.exp() },
            likeliest: likeliest.into_iter().map(|at| (first + at, logits[at as usize])).collect(),
        }
    }
}

impl Ranked {
    /// The ranking of logits `[vocab]` whose banned tokens are -∞. `split` is the first timestamp.
    pub fn of(logits: &[f32], split: u32, count: usize) -> Self {
        let (others, timestamps) = logits.split_at((split as usize).min(logits.len()));
        Self { others: Part::of(others, 0, count), timestamps: Part::of(timestamps, split, count) }
    }

    /// Whether the sum of the probabilities of timestamps exceeds the greatest of the others.
    pub(crate) fn timestamps_win(&self) -> bool {
        let Self { others, timestamps } = self;
        let reach = f64::from(others.greatest) - f64::from(timestamps.greatest);
        timestamps.sum > 0.0 && timestamps.sum.ln() > reach
    }

    /// The likeliest tokens with their log-probabilities, of timestamps alone if these win.
    pub(crate) fn candidates(&self, prefers_timestamps: bool, count: usize) -> Vec<(u32, f64)> {
        let Self { others, timestamps } = self;
        let parts: &[&Part] = match prefers_timestamps && self.timestamps_win() {
            true => &[timestamps],
            false => &[others, timestamps],
        };
        let mut all: Vec<(u32, f32)> =
            parts.iter().flat_map(|part| &part.likeliest).copied().collect();
        // stable: timestamps have the greater ids
        all.sort_by(|(_, a), (_, b)| b.partial_cmp(a).unwrap_or(Ordering::Equal));
        all.truncate(count);
        let greatest = all.first().map_or(f32::NEG_INFINITY, |&(_, logit)| logit);
        let below = |logit: f32| match logit == greatest {
            // the difference of equal infinities too
            true => 0.0,
            false => f64::from(logit) - f64::from(greatest),
        };
        let sum: f64 = parts.iter().map(|part| part.sum * below(part.greatest).exp()).sum();
        all.into_iter().map(|(token, logit)| (token, below(logit) - sum.ln())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::timestamps_win;

    /// Candidates and the rule of timestamps are those of the whole row.
    #[test]
    fn rankings_are_those_of_the_logits() {
        let mut random = fastrand::Rng::with_seed(3);
        let (mut wins, split) = (0, 60u32);
        for round in 0..400 {
            let shift = [0.0, 4.0, 8.0][round % 3];
            let mut row: Vec<f32> =
                (0..90).map(|id| random.f32() * 6.0 + if id < 60 { shift } else { 4.0 }).collect();
            for _ in 0..round % 100 {
                row[random.usize(0..90)] = f32::NEG_INFINITY;
            }
            let ranked = Ranked::of(&row, split, 6);
            let (others, timestamps) = row.split_at(60);
            let expected = timestamps_win(others, timestamps);
            assert_eq!(ranked.timestamps_win(), expected);
            wins += u32::from(expected);
            if expected {
                row[..60].fill(f32::NEG_INFINITY);
            }
            let sum = LogSumExp::of(&row);
            let found = ranked.candidates(true, 6);
            let best = likeliest_tokens(&row, 6);
            assert_eq!(found.iter().map(|(token, _)| *token).collect::<Vec<_>>(), best);
            for (token, logprob) in found {
                assert!((logprob - sum.log_prob(row[token as usize])).abs() < 1e-6);
            }
        }
        assert!((50..350).contains(&wins), "{wins}");
    }

    #[test]
    fn nothing_is_allowed() {
        let ranked = Ranked::of(&[f32::NEG_INFINITY; 9], 5, 3);
        assert!(!ranked.timestamps_win());
        assert!(ranked.candidates(true, 3).is_empty());
    }
}
