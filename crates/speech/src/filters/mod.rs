//! Filters of logits: which tokens may follow.
//!
//! [`Rules`] hold what is constant for a window. [`Rules::bans`] computes the bans of one row from
//! the tokens sampled so far, in few ranges of ids. They apply to logits on the CPU, or become a
//! bit mask ([`Rules::mask`]) for a backend that keeps its logits. Only [`timestamps_win`] needs
//! the logits.

mod history;
mod rules;

pub use history::{Repetition, penalize};
pub use rules::{Bans, Rules, timestamps_win};
