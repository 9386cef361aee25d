//! Running plans: the executable, its passes in flight, and measurements.

mod accept;
pub(crate) mod executable;
mod in_flight;
mod memory;
pub mod microbench;
pub(crate) mod profile;
