//! Drafts of the next tokens of a sequence, and the decision how many of them a pass verifies.
//!
//! Drafts are tokens of the text so far or of a predicted text, which a [`LookupDrafter`] finds for
//! one sequence. Or a [`Drafter`] drafts them: a [draft model](draft_model), or the [head] of the
//! model's file. The rate of acceptance is kept for each; [`costs`] has the measured times of
//! passes; [`choose()`] compares both.
//!
//! Drafts are rows of a decoding pass, each with a sample. They are accepted while they equal the
//! samples, and the positions after them are run again. Recurrent states are saved to a snapshot
//! before a pass with drafts. Where one is rejected they are restored, and the accepted tokens are
//! rows of the next pass. While drafts are verified, decoding does not run ahead of the host.
//!
//! A draft model or head that is the partner of its model
//! ([`pair`](pelton_graph::Executable::pair)) hands its tokens on without the host. Its passes are
//! submitted right before the pass that verifies, whose results have the drafted tokens.

mod acceptance;
mod choose;
mod costs;
mod draft_model;
mod draft_passes;
mod drafter;
mod head;
mod lookup;
mod lookup_drafter;

pub(super) use acceptance::Rate;
pub(super) use choose::{Choice, DRAFT_MAX, all, choose};
pub(super) use costs::PassCosts;
pub(crate) use draft_model::DraftModel;
pub(crate) use drafter::Drafter;
pub(super) use drafter::{Ask, DECODE_ROWS, States};
pub(crate) use head::HeadModel;
pub(crate) use lookup_drafter::LookupDrafter;
pub(super) use lookup_drafter::Proposal;
