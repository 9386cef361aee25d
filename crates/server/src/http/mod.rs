//! Connections and what holds for all requests: keys, limits, identifiers, log lines.

mod access;
mod guard;
mod hosts;
mod limits;
mod listen;
mod peer;
mod places;
mod socket;
mod timed;
mod tls;
#[cfg(unix)]
mod unix;

pub(crate) use guard::{Guard, guard};
pub(crate) use hosts::is_local;
pub(crate) use limits::Permit;
pub(crate) use listen::serve;
pub use socket::Address;
pub(crate) use socket::Listener;
pub(crate) use tls::Tls;
