//! Decoding of encoded windows: from a window to its best tokens.
//!
//! A [`Job`] is one window with its options and its prompt. [`decode`] runs many jobs in one batch,
//! as many at a time as the recognizer has hypotheses for. Each job has its own search, so a job's
//! result does not depend on the others.

mod batch;
mod beam;
mod best_row;
mod candidates;
mod control;
mod greedy;
mod job;
mod language;
mod options;
mod parallel;
mod prompt;
mod row;
mod task;

pub use batch::decode;
pub use control::{Control, DrawKey, Place};
pub use job::{Decoded, Job};
pub use language::{LanguageProbability, detect_languages};
pub use options::{DecodeOptions, Suppress, Task};

pub(crate) use candidates::likeliest as likeliest_tokens;
pub(crate) use language::likeliest;
pub(crate) use prompt::start;
