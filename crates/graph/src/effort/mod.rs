//! Effort: how much of its inputs a row multiplies, by `dial.rs`; of which matrices, by `mark.rs`. A
//! `table.rs` divides an effort among kinds of matrices, and has the scores (`scores.rs`) whose
//! quantiles are the thresholds of live inputs.

mod dial;
mod mark;
mod scores;
mod table;

pub use dial::{Effort, EffortMode, LOWER_HALF};
pub use scores::{InputScores, ScoreCounts};
pub use table::{EffortCurve, EffortGroup, EffortKind, EffortOptions, EffortTable, MatrixScores};
