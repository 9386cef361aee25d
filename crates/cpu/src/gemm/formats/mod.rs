//! The block formats, unpacked into tiles: one function body for all instruction sets.
//!
//! The functions have loops instead of closures. Only a function with `inline(always)` is certain
//! to be inlined into the one that enables the instruction set, and closures cannot have it.

mod blocks32;
mod codings;
mod few_bits;
mod fields;
mod fp4;
mod grids;
mod iq1;
mod iq2;
mod iq3;
mod iq4;
mod k_halves;
mod k_quants;
#[cfg(target_arch = "x86_64")]
mod packed_k;
mod ternary;

pub(super) use blocks32::{Iq4Nl, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
pub(super) use few_bits::{Q1_0, Q2_0};
pub(super) use fp4::{Mxfp4, Nvfp4};
pub(super) use iq1::{Iq1M, Iq1S};
pub(super) use iq2::{Iq2S, Iq2Xs, Iq2Xxs};
pub(super) use iq3::{Iq3S, Iq3Xxs};
pub(super) use iq4::Iq4Xs;
pub(super) use k_halves::{Q2K, Q3K, Q6K};
pub(super) use k_quants::{Q4K, Q5K};
#[cfg(target_arch = "x86_64")]
pub(super) use packed_k::{PackedQ2K, PackedQ3K, PackedQ4K, PackedQ5K, PackedQ6K};
pub(super) use ternary::{Tq1_0, Tq2_0};
