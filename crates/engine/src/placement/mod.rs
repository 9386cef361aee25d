//! The devices of a model: which there are, which part of it each has, and how fast they are
//! together.
//!
//! | module | contents |
//! |---|---|
//! | `rates` | the measured rates of devices, which are kept |
//! | `devices` | the devices that an engine has opened, and the memory that a load may take |
//! | `open` | the opening of devices |
//! | `predict` | the speed of a placement |
//! | `chosen` | a placement: its devices, limits and table |
//! | `layer_ranges` | the ranges of layers of several GPUs |
//! | `wish` | the placement that options ask for |
//! | `candidate` | a placement to try |
//! | `policy` | the choice: the first candidate that fits |
//! | `passes` | the rates that passes over a model show |
//!
//! Each imports from those above it.

mod candidate;
mod chosen;
mod devices;
mod layer_ranges;
mod open;
pub(crate) mod passes;
mod policy;
mod predict;
mod rates;
mod wish;

pub(crate) use chosen::Chosen;
pub(crate) use devices::{Devices, MoreGpus};
pub(crate) use open::open;
pub(crate) use policy::choose;
pub(crate) use rates::KnownRates;
