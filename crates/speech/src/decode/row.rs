//! Rows of sampled tokens, and the probabilities of their next ones.

use crate::softmax::LogSumExp;

use super::candidates::likeliest;

/// One row: the sampled tokens and the sum of their log-probabilities.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Row {
    pub(super) tokens: Vec<u32>,
    pub(super) sum: f64,
}

/// A row of the next step: the index of the row that it continues, and whether the model runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) row: usize,
    pub(super) live: bool,
}

/// A possible next token of a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) token: u32,
    pub(super) logprob: f64,
}

/// The likeliest `n` tokens of filtered logits, with their log-probabilities.
pub(super) fn candidates(logits: &[f32], n: usize) -> Vec<Candidate> {
    let sum = LogSumExp::of(logits);
    let candidate = |token: u32| Candidate { token, logprob: sum.log_prob(logits[token as usize]) };
    likeliest(logits, n).into_iter().map(candidate).collect()
}

/// The allowed next tokens of a row, as much of them as its search needs.
#[derive(Clone, Debug)]
pub(super) enum Next {
    /// The likeliest ones, in descending order.
    Likeliest(Vec<Candidate>),
    /// The filtered logits `[vocab]` for a draw, and the logarithm of their sum of exponentials.
    All(Vec<f32>, LogSumExp),
}

impl Next {
    /// The likeliest tokens; none of logits for a draw.
    pub(super) fn likeliest(&self) -> &[Candidate] {
        match self {
            Self::Likeliest(candidates) => candidates,
            Self::All(..) => &[],
        }
    }
}

/// The log-probability of a token of logits with the logarithm of their sum, -∞ for a banned one.
pub(super) fn logprob(logits: &[f32], sum: &LogSumExp, token: u32) -> f64 {
    match logits.get(token as usize) {
        Some(&logit) if logit > f32::NEG_INFINITY => sum.log_prob(logit),
        _ => f64::NEG_INFINITY,
    }
}
