//! Effort: how much of its inputs a row multiplies, by `dial.rs`; of which matrices, by `mark.rs`; and a
//! table of fractions for each kind of them.

mod dial;
mod mark;
mod table;

pub use dial::{Dial, Effort, EffortMode, LOWER_HALF};
pub use table::{EffortCurve, EffortGroup, EffortKind, EffortOptions, EffortTable};
