//! One draw of a token as data, and its result: what every backend computes the same.

/// The most tokens of the history that penalties can look at.
pub const PENALTY_WINDOW_MAX: usize = 4096;

/// The most log-probabilities of likeliest tokens that a draw can return.
pub const LOG_PROBS_MAX: usize = 20;

/// Penalties on tokens of the recent history: the logit `l` of a token that occurs `n ≥ 1` times
/// becomes `l / repetition` (`l · repetition` where `l ≤ 0`), less `presence + n · frequency`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Penalties {
    /// Above 0; 1 for none (Keskar et al., arXiv 1909.05858).
    pub repetition: f32,
    /// Subtracted once; 0 for none.
    pub presence: f32,
    /// Subtracted for each occurrence; 0 for none.
    pub frequency: f32,
    /// The newest tokens of the history that count, prompt included: 1 to [`PENALTY_WINDOW_MAX`].
    pub window: u32,
}

/// How one token is drawn from the logits `[vocab]` of one row.
///
/// The order is: log-probabilities of the raw logits, bias, penalties, mask, then the filters and
/// the draw of [`FixedParams`](crate::FixedParams).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw<'a> {
    /// Filters and temperature; `None` takes the likeliest token.
    pub params: Option<crate::FixedParams>,
    /// The key of the noise.
    pub seed: u64,
    /// The index of the token in its sequence, from 0 for the first after the prompt.
    pub index: u64,
    /// Penalties on the recent history.
    pub penalties: Option<Penalties>,
    /// Summands of the logits of single tokens; each token at most once.
    pub bias: &'a [(u32, f32)],
    /// The tokens that are allowed, a bit each: token `t` is bit `t % 32` of word `t / 32`. `None`
    /// allows all.
    pub mask: Option<&'a [u32]>,
    /// Log-probabilities of this many likeliest tokens, and of the drawn one: 0 to
    /// [`LOG_PROBS_MAX`]; `None` for none at all.
    pub log_probs: Option<u8>,
}

impl Draw<'_> {
    /// The likeliest token.
    pub const GREEDY: Self = Self {
        params: None,
        seed: 0,
        index: 0,
        penalties: None,
        bias: &[],
        mask: None,
        log_probs: None,
    };
}

/// The result of one draw.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sampled {
    /// The token; `None` if no allowed token's logit was a number.
    pub token: Option<u32>,
    /// Natural log-probabilities, if they were asked for and a token was drawn.
    pub log_probs: Option<LogProbs>,
}

/// Natural log-probabilities under the softmax of the raw logits of the whole vocabulary.
#[derive(Clone, Debug, PartialEq)]
pub struct LogProbs {
    /// The log-probability of the drawn token.
    pub drawn: f32,
    /// The likeliest tokens, in descending order, ties by id. Masks and biases do not change them.
    pub top: Vec<(u32, f32)>,
}
