//! Persistent decode: the dispatches of a layer as one dispatch with grid barriers inside. It is
//! for passes of one row, full or below 1, and of up to four rows that verify a draft of a head.
//!
//! Each dispatch that depends on the one before costs 2.4 µs on an H200, a grid barrier half of
//! that. A layer is five dispatches or six, so linking them saves a quarter of a token's time
//! there. It is a second lowering of the same plan: [`segments`] lowers the steps of a pass of few
//! rows for workgroups of one size, and [`link`] makes one kernel of those of a layer. The
//! arithmetic is that of the dispatches, bit for bit.
//!
//! Nothing promises that all workgroups of a dispatch run side by side. So it is tried at load,
//! with the data checked ([`trial`]), and timed against the dispatches ([`choose()`]). The spins of
//! barriers are bounded, and a pass in which one ran out is repeated by dispatches
//! (`run/executable/repeat.rs`).

mod choose;
mod link;
mod segments;
mod trial;
mod wgsl;

#[cfg(test)]
mod tests;

pub(crate) use choose::{Mode, can_repeat, choose};
pub(crate) use segments::{PassRows, Persistent, PersistentPass};
pub(crate) use trial::Trial;
