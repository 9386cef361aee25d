//! The thread that runs a model: it joins the tokens of all requests into passes.
//!
//! [`worker`] receives requests and drives a [`Scheduler`] step by step. [`admission`] decides
//! which requests start, [`plan`] what the next pass runs, and [`drafts`] which drafted tokens it
//! verifies. [`passes`] submits it and takes its results. [`guided`] lets constraints follow the
//! tokens of their sequences, and [`late`] draws tokens of passes that were submitted before their
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
//! | entry, work, flight | the rows of one sequence in a pass; a planned pass; a submitted one |
//! | turn | the kind of a pass: decoding, prompts, or tokens that are computed again |
//! | want | a result that a pass computes of a row: logits, a sampled token, or one drawn later |
//! | ahead | tokens that are sampled in passes whose results were not taken yet |
//! | guide | the constraint of one text, as its sequence has it; such a sequence is guided |
//! | follower | the state of a guide, which moves to a worker thread with each token and back |
//! | late | said of a draw that follows its pass, because the mask was not known before |
//! | scores | the log-probabilities of the tokens of one prompt |

mod admission;
mod budget;
mod drafts;
mod follower;
mod followers;
mod goal;
mod guide;
mod guided;
mod hidden;
mod host_draw;
mod late;
mod lone_step;
mod output;
mod passes;
mod plan;
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
#[cfg_attr(target_family = "wasm", path = "caller.rs")]
mod worker;

pub(crate) use budget::Targets;
pub(crate) use follower::Follower;
pub(crate) use goal::{DrawOptions, Goal};
pub(crate) use guide::Guide;
pub(crate) use host_draw::HostDraw;
pub(crate) use output::{Output, Sink};
pub(crate) use queue::QueueBound;
pub(crate) use resources::Resources;
pub(crate) use runner::Runner;
pub(crate) use scheduler::Scheduler;
pub(crate) use scores::PromptScores;
pub(crate) use sequence::Sequence;
pub(crate) use speculate::{DraftModel, Drafter, HeadModel};
pub(crate) use steps::Shared;
pub(crate) use values::{Values, WantedRows};
pub(crate) use worker::Worker;
