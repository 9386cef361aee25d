//! Sampling: from the logits `[vocab]` of one row to a token.
//!
//! A [`Draw`] begins with log-probabilities of the raw logits, logit biases, penalties and the
//! mask. The filters top-k, top-p and min-p follow, then temperature and the draw. The draw takes
//! the greatest of `logit / temperature + noise` among the tokens that the filters kept, with
//! Gumbel noise. This samples the softmax exactly (the Gumbel-max trick; Maddison, Tarlow and
//! Minka, arXiv 1411.0030) and needs no sum over the tokens.
//!
//! Everything after the difference of two logits is computed in whole numbers ([`fixed_point`]),
//! so a GPU draws the same tokens as the CPU. The noise is a function of seed, index and token
//! (a counter-based generator), so a draw has no state and can be repeated or skipped.

mod adjust;
mod candidates;
pub mod chain;
mod distance;
mod draw;
mod fixed_params;
pub mod fixed_point;
mod full_vocab;
mod greatest;
mod log_probs;
mod method;
mod noise;
mod option_values;
mod options;
mod order;
mod sampler;

pub use draw::{Draw, LOG_PROBS_MAX, LogProbs, PENALTY_WINDOW_MAX, Penalties, Sampled};
pub use fixed_params::FixedParams;
pub use log_probs::LogSum;
pub use options::{Field, OptionKind, Sampling, SamplingOption};
pub use order::SamplerKind;
pub use sampler::Sampler;

#[cfg(test)]
mod tests;
