//! Vectors of sixteen f32 lanes, in the registers of any instruction set.
//!
//! A kernel is a [`Body`]: written once, generic over [`Simd`], and compiled for each instruction
//! set behind [`dispatch()`]. A value of a `Simd` type is a proof that the CPU has its
//! instructions: only `dispatch` makes one, from an [`Isa`](crate::isa::Isa).
//!
//! Every method is `inline(always)`, and instructions are not wrapped in closures: outside of the
//! function that enables the instruction set, each operation is a call with its operands in memory.

mod dispatch;
mod functions;
mod lanes;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
mod register;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(crate) use dispatch::dispatch;
pub(crate) use functions::{normal_cdf, sigmoid, softplus, tanh};
pub(crate) use lanes::{Body, LANES, Simd};
#[cfg(target_arch = "aarch64")]
pub(crate) use neon::NeonPair;
pub(crate) use portable::Portable8;
pub(crate) use register::Register;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Ymm, Zmm};
