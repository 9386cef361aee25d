//! Rows below 1: the orders in which their weights are kept (`kept.rs`), and what each row multiplies
//! (`live.rs`).

mod kept;
mod live;

pub(crate) use kept::{Kept, kept_bytes};
pub(crate) use live::{Efforts, LiveInputs, Order, PRODUCTS};
