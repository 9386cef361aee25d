//! Connections and what holds for all requests: keys, limits, identifiers, log lines.

mod access;
mod guard;
mod limits;
mod listen;
mod timed;

pub(crate) use guard::{Guard, guard, is_local};
pub(crate) use listen::serve;
