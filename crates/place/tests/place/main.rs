//! Models over several devices, in one binary.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

mod cohorts;
mod common;
mod cpu;
mod gpu;
mod host;
mod overlap;
mod pictures;
mod predict;
mod profile;
