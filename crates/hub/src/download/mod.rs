//! Downloads of single files: in pieces, over several connections, continued after an interruption,
//! verified before they get their name.
//!
//! While a file `NAME` is incomplete, its bytes are in `NAME.pelton.incomplete` and the list of its
//! complete pieces in `NAME.pelton.journal`. `NAME` appears by a rename after the hashes were
//! compared.

mod etag;
mod fetch;
mod hash;
mod job;
mod journal;
mod kind;
mod meter;
mod pieces;
mod transfer;
mod verify;

pub(crate) use etag::Etag;
pub(crate) use fetch::{fetch, missing_bytes};
pub(crate) use hash::Hash;
pub(crate) use job::Job;
pub(crate) use journal::journal_bytes;
pub(crate) use meter::Meter;
pub use meter::{Phase, Progress};
