//! Models over several devices, in one binary.

mod cohorts;
mod common;
mod cpu;
mod gpu;
mod host;
mod overlap;
mod predict;
mod profile;
