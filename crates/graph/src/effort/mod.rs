//! Effort: how much of its inputs a row multiplies, and what it leaves out of a matrix, by
//! `dial.rs`; of which matrices, by `mark.rs`. A `table.rs` has the scores (`scores.rs`) whose
//! quantiles are the thresholds of live inputs.

mod dial;
mod mark;
mod scores;
mod table;

pub use dial::{Effort, EffortForm, LOWER_HALF};
pub use mark::is_effort_matrix;
pub use scores::{InputScores, ScoreCounts};
pub use table::{EffortCurve, EffortOptions, EffortTable, MatrixScores};
