//! How a backend that chooses tokens itself is to choose them.

/// What stands in a chain's tokens where no logit was a number.
pub const NO_TOKEN: u32 = u32::MAX;

/// How the next token is chosen from the logits, without a repetition penalty: the semantics, bit
/// for bit, of the crate `pelton-sampling`, whose documentation gives the ranges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// What logits are divided by; 0 takes the likeliest token always.
    pub temperature: f32,
    /// Only this many of the likeliest tokens are left; 0 for all.
    pub top_k: usize,
    /// Only the likeliest tokens that together reach this probability are left; 1 for all.
    pub top_p: f32,
    /// Only tokens of at least this share of the likeliest one's probability are left.
    pub min_p: f32,
    /// The noise's key.
    pub seed: u64,
    /// The number of the next token in its sequence, from 0 for the first after the prompt.
    pub index: u64,
}
