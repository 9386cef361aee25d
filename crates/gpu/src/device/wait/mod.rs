//! Waiting: for a future, and for the work of a submission.
//!
//! Elsewhere a thread blocks. A browser's worker must not: its call is suspended until a promise
//! settles (JavaScript Promise Integration), and events are handled meanwhile.

#[cfg_attr(target_family = "wasm", path = "browser.rs")]
mod native;

pub(crate) use native::Submission;
pub(super) use native::{block_on, has_ended, spin, wait};
