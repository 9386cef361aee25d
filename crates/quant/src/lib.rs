//! Block formats of quantized weights: layouts, reference decoders and encoders.
//!
//! [`decode`] and [`encode`] convert a number of whole blocks and check every length. Kernels that
//! read blocks directly use the typed layouts, such as [`BlockQ4K`]. They are `Pod` structs of
//! alignment 1 and size [`DType::block_bytes`], so that `bytemuck::try_cast_slice` turns the bytes
//! of a row into blocks. `codes` of each layout unpacks the integers in element order.
//!
//! The layouts are ggml's (`ggml-common.h`). Results are bit-equal to those of the Python
//! package `gguf`; see `tests/make_golden.py`.
//!
//! ```
//! use pelton_quant::{DType, decode, encode};
//!
//! let row: Vec<f32> = (0..64).map(|i| i as f32 / 32.0 - 1.0).collect();
//! let mut bytes = Vec::new();
//! encode(DType::Q8_0, &row, &mut bytes)?;
//! assert_eq!(Some(bytes.len()), DType::Q8_0.bytes_of(64));
//!
//! let mut back = vec![0.0; 64];
//! decode(DType::Q8_0, &bytes, &mut back)?;
//! assert!(row.iter().zip(&back).all(|(a, b)| (a - b).abs() < 0.005));
//! # Ok::<(), pelton_quant::Error>(())
//! ```

mod buckets;
mod codec;
mod dtype;
mod error;
mod few_bits;
mod fit;
mod float;
mod fp4;
mod grids;
mod iq1;
mod iq2;
mod iq3;
mod iq4;
mod k_affine;
mod k_quants;
mod k_symmetric;
mod nibbles;
mod parts;
mod q4;
mod q5;
mod q8;
mod scale;
mod ternary;

pub use buckets::{
    BUCKET, BucketSource, PROBES, bucket_exponent, bucket_position, bucket_probe, bucket_value,
    can_sort, pack_buckets,
};
pub use codec::{decode, encode, encode_weighted};
pub use dtype::DType;
pub use error::Error;
pub use few_bits::{BlockQ1_0, BlockQ2_0};
pub use fp4::{BlockMxfp4, BlockNvfp4, FP4_LEVELS};
pub use grids::{
    Grid, IQ1_GRID, IQ2_S_GRID, IQ2_XS_GRID, IQ2_XXS_GRID, IQ3_S_GRID, IQ3_XXS_GRID, even_signs,
};
pub use iq1::{BlockIq1M, BlockIq1S};
pub use iq2::{BlockIq2S, BlockIq2Xs, BlockIq2Xxs};
pub use iq3::{BlockIq3S, BlockIq3Xxs};
pub use iq4::{BlockIq4Nl, BlockIq4Xs, IQ4_NL_LEVELS};
pub use k_quants::{BlockQ2K, BlockQ3K, BlockQ4K, BlockQ5K, BlockQ6K, scale_min_k4};
pub use parts::Parts;
pub use q4::{BlockQ4_0, BlockQ4_1};
pub use q5::{BlockQ5_0, BlockQ5_1};
pub use q8::BlockQ8_0;
pub use scale::F16Scale;
pub use ternary::{BlockTq1_0, BlockTq2_0};
