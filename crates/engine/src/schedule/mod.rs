//! The thread that runs a model: it joins the tokens of all requests into passes.
//!
//! [`worker`] receives requests and drives a [`Scheduler`], whose file shows the two steps on one
//! page: `schedule` plans and submits passes, `postprocess` takes their results. Each part of
//! these steps is a file of the folder `scheduler/`. The other files are the state that the
//! scheduler is made of.
//!
//! | stage of a request | it has | next |
//! |---|---|---|
//! | waiting | a place in the bounded queue | running, with a slot and pages |
//! | running | a slot, pages, passes in flight | its end, or a preemption, which takes slot and pages |
//! | draining | passes in flight, whose tokens belong to its text | preempted, with the last of their results |
//! | preempted | its tokens | running again |
//!
//! Words of this module:
//!
//! | word | meaning |
//! |---|---|
//! | sequence | a request that was accepted, with its tokens and its stage |
//! | goal | what a request is for: text, or the values of rows |
//! | place | a sequence's place in the bounded queue, until its first start |
//! | shares | the tokens that each client was served, which decide whose request starts next |
//! | entry | the rows of one sequence in a pass |
//! | turn | the kind of a pass: decoding, prompts, or tokens that are computed again |
//! | want | a result that a pass computes of a row: logits, a sampled token, or one drawn later |
//! | in flight | said of passes that were submitted and not taken, and of the tokens that they sample |
//! | drafter | what drafts tokens: the lookup in a text, or a model with passes of its own |
//! | matcher | the state of a constraint, which moves to a worker thread with each token and back |
//! | late | said of a draw that follows its pass, because the mask was not known before |
//! | scores | the log-probabilities of the tokens of one prompt |

mod constraint;
mod drafting;
mod goal;
mod health;
mod host_draw;
mod output;
mod pass;
mod prefill_budget;
mod queue;
mod requests;
mod resources;
mod runner;
mod scheduler;
mod scores;
mod sequence;
mod shares;
mod speculate;
mod steps;
mod stop;
mod timing;
mod turns;
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
pub(crate) use sequence::{Sequence, Terms};
pub(crate) use speculate::{DraftModel, Drafter, HeadModel, LookupDrafter};
pub(crate) use steps::Shared;
pub(crate) use values::{Values, WantedRows};
pub(crate) use worker::Worker;
