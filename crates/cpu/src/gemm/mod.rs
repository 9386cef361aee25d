//! Products of activations with matrices in any stored format.
//!
//! [`matmul`] computes `out[r][n] = Σ_k W[n][k] x[r][k]` with `W` as it lies in the model file.
//! Weights in block formats are multiplied as integers, with activations in 8 bits; F32, F16 and
//! BF16 weights in f32. The results are the same bit for bit for any instruction set
//! ([`Isa`](crate::isa::Isa)), batch, partition of the rows and number of threads. Products in f32 sum
//! in another order in rows of prompts than in rows of decoding
//! ([`set_phase`](Activations::set_phase)).
//!
//! `quantized.rs`, `float.rs` (prompts) and `float_decode.rs` hold the loops, `kernels.rs` the products of unpacked tiles and
//! `formats/` the unpacking of blocks. All are written in the vector operations of `vectors.rs`, which each instruction set implements.

mod activations;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub mod buckets;
mod dispatch;
mod float;
mod float_decode;
mod float_kernels;
mod formats;
pub mod input_major;
mod job;
mod kernels;
#[cfg(target_arch = "aarch64")]
mod neon;
mod pack;
mod panel;
mod portable;
mod prefetch;
mod quantized;
mod scratch;
#[cfg(test)]
mod tests;
mod tile;
mod vectors;

pub use activations::{ActivationKind, Activations};
pub use dispatch::{has_panels, matmul, matmul_picked};
pub use job::{MatrixError, MatrixRef, Output, Picked, ROW_ALIGN};
pub use pack::{PACKED_ROWS, can_pack, pack};
