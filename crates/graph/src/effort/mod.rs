//! Effort: the share of its inputs that a row multiplies. `form.rs` says which parts of a product
//! each weight format leaves out, and `mark.rs` selects the matrices. `scores.rs` computes
//! thresholds of inputs from quantiles of their scores, and `table.rs` keeps the scores of each
//! matrix.

mod form;
mod mark;
mod scores;
mod table;

pub use form::{Effort, EffortForm, LOWER_HALF};
pub use mark::is_effort_matrix;
pub use scores::{InputScores, ScoreCounts};
pub use table::{EffortCurve, EffortOptions, EffortTable, MatrixScores};
