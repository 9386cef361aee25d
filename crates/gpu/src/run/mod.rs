//! Running plans: the executable, its passes in flight, and measurements.
//!
//! A wait for the GPU has a limit of 120 seconds, after which the GPU counts as lost. A failure
//! that the driver reports outside of a call is reported once, at the next check, and does not fail
//! later calls unless the GPU is lost.

mod accept;
pub(crate) mod bandwidth;
pub(crate) mod clock_keeper;
pub(crate) mod executable;
mod gpu;
mod in_flight;
mod memory;
pub mod microbench;
pub(crate) mod profile;
mod rates;

pub use gpu::Gpu;
