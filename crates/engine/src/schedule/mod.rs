//! The thread that runs a model: it joins the tokens of all requests into passes.
//!
//! [`worker`] receives requests and drives a [`Scheduler`] step by step;
//! [`admission`] decides which requests start, [`plan`] what the next pass runs, [`drafts`] which
//! drafted tokens it verifies, [`passes`] submits it and takes its results, [`guided`] lets
//! constraints follow the tokens of their sequences, [`late`] draws tokens of passes that were
//! submitted before their masks were known.

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
mod output;
mod own_drafts;
mod passes;
mod plan;
mod queue;
mod resources;
mod runner;
mod scheduler;
mod sequence;
mod shares;
mod speculate;
mod stop;
mod values;
mod worker;

pub(crate) use follower::Follower;
pub(crate) use goal::{DrawOptions, Goal};
pub(crate) use guide::Guide;
pub(crate) use host_draw::HostDraw;
pub(crate) use output::{Output, Sink};
pub(crate) use queue::QueueBound;
pub(crate) use resources::Resources;
pub(crate) use runner::{Runner, message};
pub(crate) use scheduler::Scheduler;
pub(crate) use sequence::Sequence;
pub(crate) use speculate::{DraftModel, Drafter, HeadModel};
pub(crate) use values::{Values, WantedRows};
pub(crate) use worker::{Command, Shared, Worker};
