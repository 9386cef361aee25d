//! Rows below 1: the orders in which their weights are kept (`weights.rs`), and what each row
//! multiplies (`live.rs`).

mod live;
mod weights;

pub(crate) use live::{Efforts, LiveInputs, Order, PRODUCTS};
pub(crate) use weights::{EffortWeights, effort_bytes};
