//! Products of activations with matrices in any stored format.
//!
//! [`matmul`] computes `out[r][n] = Σ_k W[n][k] x[r][k]` with `W` as it lies in the model file.
//! Weights in block formats are multiplied as integers, with activations in 8 bits; F32, F16 and
//! BF16 weights in f32. The results are the same bit for bit for any instruction set
//! ([`Isa`](crate::isa::Isa)), batch, partition of the rows and number of threads. Products in f32
//! sum in another order in rows of prompts than in rows of decoding
//! ([`set_phase`](Activations::set_phase)).
//!
//! `quantized.rs`, `float.rs` (prompts) and `float_decode.rs` hold the loops, `kernels.rs` the
//! products of unpacked tiles and `formats/` the unpacking of blocks. All are written in the vector
//! operations of `vectors.rs`, which each instruction set implements.
//!
//! Activations have blocks of 32 codes, with a scale and sums next to the codes. AVX2 and
//! AVX-512 multiply copies of the weights that are packed at load (`pack.rs`), unless the copy
//! exceeds the available memory. `PELTON_ISA` (`portable`, `avx2`, `avx-vnni`, `avx512`,
//! `avx512-vnni`, `neon`, `neon-dotprod`, `neon-i8mm`) chooses an instruction set; one that the CPU
//! lacks is an error.
//!
//! The number of compiled variants decides how long a build takes. Unpacking is compiled for each
//! format and instruction set. Products of tiles are compiled for each *coding* (range of the
//! codes, offset, scales, minimum), of which there are half as many as formats. The loops are
//! compiled once. Only the kernel for one activation row, and for packed rows that for two to
//! sixteen, is compiled for a format as a whole, and not for formats with codebooks.
//!
//! Words of this module:
//!
//! | word | meaning |
//! |---|---|
//! | activation row | one row of the input `[batch, cols]` |
//! | block | 32 columns, which share a scale in the activations |
//! | panel | consecutive rows of the matrix in the lanes of a vector |
//! | tile | an unpacked block of a panel: codes, scales, minima |
//! | coding | the properties of a tile on which products depend: range of the codes, offset, scales, minimum |
//! | chunk | the columns that products of many rows process at a time |
//! | packed rows | weights that are interleaved at load, as many rows a panel as vectors have lanes |
//! | job | one product, as the kernels of a thread see it |
//! | picked | said of the rows of activations that a product multiplies, if these are not all |
//! | line | the weights of one input side by side, in `input_major/` |
//! | slab | the outputs of a thread in lines, up to 2,048 |
//! | run, segment | 128 outputs of a line, and the part of them that is unpacked at once |
//! | sweep | the product of four lines with all outputs of a slab |
//! | live | said of inputs that a row below 1 multiplies |
//! | bucket | weights of one input that are sorted by magnitude, in `buckets/` |
//! | rank, probe | the place of a weight in its bucket; a fixed weight by which a cutoff is estimated |

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
pub use dispatch::{matmul, matmul_picked};
pub use job::{MatrixError, MatrixRef, Output, Picked, ROW_ALIGN};
pub use pack::{Panels, can_pack, pack};
