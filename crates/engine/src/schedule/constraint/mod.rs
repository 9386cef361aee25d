//! Constraints of generated texts: grammars that decide which tokens may come next.
//!
//! A [`TextMatcher`] follows the tokens of one text. The [`MatcherPool`] runs its steps on worker
//! threads while passes run, or as an [`InlineStep`] of the scheduler's thread. A sequence keeps a
//! [`DrawConstraint`]: the masks of its next draws, and its matcher while no worker has it.

mod draw_constraint;
mod inline_step;
mod matcher_pool;
mod text_matcher;

pub(crate) use draw_constraint::DrawConstraint;
pub(crate) use inline_step::InlineStep;
pub(super) use matcher_pool::{FinishedStep, MatcherPool};
pub(crate) use text_matcher::TextMatcher;
pub(super) use text_matcher::{MatcherStep, Outcome};
