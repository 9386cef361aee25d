//! The thread that runs a model: it joins the tokens of all requests into passes.
//!
//! [`worker`] receives requests and drives a [`Scheduler`] step by step. [`admission`] decides
//! which requests start, [`plan`] what the next pass runs, and [`drafts`] which drafted tokens it
//! verifies. [`passes`] submits it and takes its results. [`constrained`] lets constraints follow the
//! tokens of their sequences, and [`late_draw`] draws tokens of passes that were submitted before their
//! masks were known. [`scores`] has the log-probabilities of prompts.
//!
//! Words of this module:
//!
//! | word | meaning |
//! |---|---|
//! | sequence | a request that was accepted, with its tokens and pages |
//! | goal | what a request is for: text, or the values of rows |
//! | place | a sequence's place in the bounded queue, until its first start |
//! | shares | the tokens that each client was served, which decide whose request starts next |
//! | entry | the rows of one sequence in a pass |
//! | turn | the kind of a pass: decoding, prompts, or tokens that are computed again |
//! | want | a result that a pass computes of a row: logits, a sampled token, or one drawn later |
//! | ahead | tokens that are sampled in passes whose results were not taken yet |
//! | constraint | the constraint of one text, as its sequence has it; such a sequence is constrained |
//! | matcher | the state of a constraint, which moves to a worker thread with each token and back |
//! | late | said of a draw that follows its pass, because the mask was not known before |
//! | scores | the log-probabilities of the tokens of one prompt |

mod admission;
mod constrained;
mod constraint;
mod drafts;
mod goal;
mod hidden;
mod host_draw;
mod late_draw;
mod output;
mod passes;
mod plan;
mod prefill_budget;
mod queue;
mod resources;
mod runner;
mod scheduler;
mod scores;
mod sequence;
mod shares;
mod speculate;
mod steps;
mod stop;
mod values;
#[cfg_attr(target_family = "wasm", path = "worker_without_threads.rs")]
mod worker;

pub(crate) use constraint::{DrawConstraint, TextMatcher};
pub(crate) use goal::{DrawOptions, Goal};
pub(crate) use host_draw::HostDraw;
pub(crate) use output::{Output, Sink};
pub(crate) use prefill_budget::Targets;
pub(crate) use queue::QueueBound;
pub(crate) use resources::Resources;
pub(crate) use runner::Runner;
pub(crate) use scheduler::Scheduler;
pub(crate) use scores::PromptScores;
pub(crate) use sequence::Sequence;
pub(crate) use speculate::{DraftModel, HeadModel, LookupDrafter};
pub(crate) use steps::Shared;
pub(crate) use values::{Values, WantedRows};
pub(crate) use worker::Worker;
