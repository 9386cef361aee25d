//! Log-probabilities of the tokens of a prompt.
//!
//! The row at position `p` gives the log-probability of the token at `p + 1`. It samples that token
//! with a bias that leaves no choice, so backends need nothing but draws for it.
//!
//! Scored rows run in passes over prompts, at most `Limits::wants` in one. A cached prefix stands
//! only for rows before the first one whose result is missing.

use std::ops::Range;

use pelton_graph::Sample;
use pelton_sampling::{Draw, Sampled};

use crate::{
    Error,
    api::{PromptToken, TokenLogprob},
};

/// A logit bias so large that greedy sampling picks its token, unless the token's logit is −∞ or
/// NaN.
const FORCED: f32 = f32::MAX;

/// Collects the log-probabilities of one prompt.
pub(crate) struct PromptScores {
    /// Likeliest tokens of each place.
    top: u8,
    /// For each row but the last the token after it, with the bias that lets it be drawn.
    forced: Vec<(u32, f32)>,
    /// The tokens so far; the first has no log-probability.
    scored: Vec<PromptToken>,
}

impl PromptScores {
    /// `top` is at most the number of likeliest tokens that a draw gives.
    pub(crate) fn new(top: usize, tokens: &[u32]) -> Self {
        let top = u8::try_from(top).unwrap_or(u8::MAX);
        let forced = tokens.iter().skip(1).map(|&id| (id, FORCED)).collect();
        let first = tokens.first().map(|&id| PromptToken::new(id, None, Vec::new()));
        Self { top, forced, scored: first.into_iter().collect() }
    }

    /// Whether all tokens have their log-probabilities.
    pub(super) fn is_complete(&self) -> bool {
        self.scored.len() > self.forced.len()
    }

    /// The first row whose result is missing. A cached prefix can replace the rows before it.
    pub(super) fn next_row(&self) -> usize {
        self.scored.len().saturating_sub(1)
    }

    /// The rows of `first..end` that are wanted.
    pub(super) fn rows(&self, first: usize, end: usize) -> Range<usize> {
        let end = end.min(self.forced.len());
        first.max(self.next_row()).min(end)..end
    }

    /// The draw of the row at `position`, which is row `row` of a pass.
    pub(super) fn sample(&self, row: usize, position: usize) -> Sample<'_> {
        let bias = self.forced.get(position).map_or(&[][..], std::slice::from_ref);
        let draw = Draw { bias, log_probs: Some(self.top), ..Draw::GREEDY };
        Sample { row: row as u32, draw, recent: &[], pending: 0 }
    }

    /// Adds the results of the next rows.
    ///
    /// # Errors
    ///
    /// [`Error::NotANumber`] if no logit of a row was a number.
    pub(super) fn push(&mut self, sampled: impl Iterator<Item = Sampled>) -> Result<(), Error> {
        for Sampled { token, log_probs } in sampled {
            let index = self.scored.len();
            let (Some(&(id, _)), Some(token), Some(log_probs)) =
                (self.forced.get(self.next_row()), token, log_probs)
            else {
                return Err(Error::PromptNotANumber { index });
            };
            // another is drawn only where its logit is -∞ or no number
            let log_prob = if token == id { log_probs.drawn } else { f32::NEG_INFINITY };
            self.scored.push(PromptToken::new(
                id,
                Some(log_prob),
                TokenLogprob::list(log_probs.top),
            ));
        }
        Ok(())
    }

    /// All tokens.
    pub(super) fn into_tokens(self) -> Vec<PromptToken> {
        self.scored
    }
}

#[cfg(test)]
mod tests {
    use pelton_sampling::{LogProbs, Sampler};

    use super::*;

    #[test]
    fn rows_of_chunks_and_after_a_preemption() {
        let mut scores = PromptScores::new(0, &[7, 8, 9, 7]);
        assert_eq!([scores.rows(0, 2), scores.rows(2, 4)], [0..2, 2..3]);
        let sampled = |id| Sampled {
            token: Some(id),
            log_probs: Some(LogProbs { drawn: -1.0, top: Vec::new() }),
        };
        scores.push([sampled(8), sampled(9)].into_iter()).unwrap();
        assert_eq!((scores.next_row(), scores.is_complete()), (2, false));
        assert_eq!([scores.rows(0, 2), scores.rows(0, 4)], [2..2, 2..3]);
        // another token than the forced one: that had no probability
        scores.push([sampled(1)].into_iter()).unwrap();
        assert!(scores.is_complete());
        assert_eq!(scores.rows(0, 4), 3..3);
        let all: Vec<_> = scores.into_tokens().iter().map(|token| token.logprob).collect();
        assert_eq!(all, [None, Some(-1.0), Some(-1.0), Some(f32::NEG_INFINITY)]);
        assert!(PromptScores::new(0, &[5]).is_complete());
    }

    /// The softmax of (0, 2, 1, 2), by hand.
    #[test]
    fn a_forced_draw_has_the_log_probability_of_its_token() {
        let log_sum = (1.0 + 2.0 * 2f64.exp() + 1f64.exp()).ln();
        let logits = [0.0, 2.0, 1.0, 2.0];
        for id in 0..4 {
            let scores = PromptScores::new(3, &[0, id]);
            let sample = scores.sample(0, 0);
            let sampled = Sampler::new().sample(&logits, 4, &sample.draw, &[]);
            assert_eq!(sampled.token, Some(id));
            let found = sampled.log_probs.unwrap();
            let expected = f64::from(logits[id as usize]) - log_sum;
            assert!((f64::from(found.drawn) - expected).abs() < 1e-6);
            let ids: Vec<u32> = found.top.iter().map(|(id, _)| *id).collect();
            assert_eq!(ids, [1, 3, 2]);
        }
    }
}
