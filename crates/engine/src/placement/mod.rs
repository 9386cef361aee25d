//! The devices of a model: which there are, which part of it each has, and how fast they are together.

mod layer_ranges;
mod more_gpus;
pub(crate) mod passes;
mod policy;
mod predict;
mod rates;

pub(crate) use more_gpus::MoreGpus;
pub(crate) use policy::{Devices, Placed, choose, explain, plan_of};
pub(crate) use rates::KnownRates;
