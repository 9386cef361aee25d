//! The dispatches and the results that the draws of one pass need.

/// "None" in place of a token or an offset.
pub(super) const NONE: u32 = u32::MAX;

/// Words of a result before its likeliest tokens: the drawn token, the number of likeliest tokens
/// plus one, the greatest logit, the sum of exponentials (lower word first), and the drawn token's
/// logit.
pub(super) const TOP_AT: usize = 6;

/// The dispatches that the wants of one pass need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SampleCall {
    /// Sampled wants.
    pub(crate) wants: usize,
    /// Whether a want takes the likeliest token.
    pub(crate) likeliest: bool,
    /// Whether a want draws among few tokens.
    pub(crate) few: bool,
    /// The most stages of the search for cuts of wants that draw among many tokens; `None` without
    /// such wants.
    pub(crate) many: Option<usize>,
    /// Whether logits are changed in place by biases or penalties.
    pub(crate) adjust: bool,
    /// Whether a want has a mask.
    pub(crate) masks: bool,
    /// The most candidates of wants with log-probabilities; `None` without such wants.
    pub(crate) log_probs: Option<usize>,
}

impl SampleCall {
    /// The call of `wants` wants of no kind yet.
    pub(super) fn of_wants(wants: usize) -> Self {
        Self {
            wants,
            likeliest: false,
            few: false,
            many: None,
            adjust: false,
            masks: false,
            log_probs: None,
        }
    }
}

/// Words of one result: only the token where no want has log-probabilities.
pub(super) fn stride(call: &SampleCall) -> usize {
    call.log_probs.map_or(1, |top| TOP_AT + 2 * top)
}
