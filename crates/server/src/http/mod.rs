//! Connections and what holds for all requests: keys, limits, identifiers, log lines.

mod access;
mod guard;
mod hosts;
mod limits;
mod listen;
mod peer;
mod places;
mod timed;

pub(crate) use guard::{Guard, guard};
pub(crate) use hosts::is_local;
pub(crate) use limits::Permit;
pub(crate) use listen::serve;
