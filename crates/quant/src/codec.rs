//! Decoding and encoding of slices: length checks, dispatch on the type, the loop over blocks.

use bytemuck::Pod;

use crate::fp4::{BlockMxfp4, BlockNvfp4};
use crate::iq1::{BlockIq1M, BlockIq1S};
use crate::iq2::{BlockIq2S, BlockIq2Xs, BlockIq2Xxs};
use crate::iq3::{BlockIq3S, BlockIq3Xxs};
use crate::iq4::{BlockIq4Nl, BlockIq4Xs};
use crate::k_quants::{BlockQ2K, BlockQ3K, BlockQ4K, BlockQ5K, BlockQ6K};
use crate::q4::{BlockQ4_0, BlockQ4_1};
use crate::q5::{BlockQ5_0, BlockQ5_1};
use crate::q8::BlockQ8_0;
use crate::ternary::{BlockTq1_0, BlockTq2_0};
use crate::{DType, Error, float};

/// Decodes `bytes` of type `dtype` into all of `out`.
///
/// Any byte values and any alignment are valid; a scale that is infinite or NaN decodes to
/// non-finite elements.
///
/// # Errors
///
/// [`Error::PartialBlock`] if `out` is not a whole number of blocks, [`Error::ByteLength`] if
/// `bytes` does not have exactly the length of `out`'s blocks. `out` is unchanged on error.
pub fn decode(dtype: DType, bytes: &[u8], out: &mut [f32]) -> Result<(), Error> {
    let len = out.len();
    let expected = dtype.bytes_of(len).ok_or(Error::PartialBlock { dtype, len })?;
    if bytes.len() != expected {
        return Err(Error::ByteLength { dtype, len, expected, found: bytes.len() });
    }
    match dtype {
        DType::F32 => float::decode_f32(bytes, out),
        DType::F16 => float::decode_f16(bytes, out),
        DType::BF16 => float::decode_bf16(bytes, out),
        DType::Q4_0 => decode_blocks(bytes, out, BlockQ4_0::decode),
        DType::Q4_1 => decode_blocks(bytes, out, BlockQ4_1::decode),
        DType::Q5_0 => decode_blocks(bytes, out, BlockQ5_0::decode),
        DType::Q5_1 => decode_blocks(bytes, out, BlockQ5_1::decode),
        DType::Q8_0 => decode_blocks(bytes, out, BlockQ8_0::decode),
        DType::Q2_K => decode_blocks(bytes, out, BlockQ2K::decode),
        DType::Q3_K => decode_blocks(bytes, out, BlockQ3K::decode),
        DType::Q4_K => decode_blocks(bytes, out, BlockQ4K::decode),
        DType::Q5_K => decode_blocks(bytes, out, BlockQ5K::decode),
        DType::Q6_K => decode_blocks(bytes, out, BlockQ6K::decode),
        DType::IQ4_NL => decode_blocks(bytes, out, BlockIq4Nl::decode),
        DType::IQ4_XS => decode_blocks(bytes, out, BlockIq4Xs::decode),
        DType::MXFP4 => decode_blocks(bytes, out, BlockMxfp4::decode),
        DType::IQ3_S => decode_blocks(bytes, out, BlockIq3S::decode),
        DType::IQ3_XXS => decode_blocks(bytes, out, BlockIq3Xxs::decode),
        DType::IQ2_S => decode_blocks(bytes, out, BlockIq2S::decode),
        DType::IQ2_XS => decode_blocks(bytes, out, BlockIq2Xs::decode),
        DType::IQ2_XXS => decode_blocks(bytes, out, BlockIq2Xxs::decode),
        DType::IQ1_S => decode_blocks(bytes, out, BlockIq1S::decode),
        DType::IQ1_M => decode_blocks(bytes, out, BlockIq1M::decode),
        DType::TQ1_0 => decode_blocks(bytes, out, BlockTq1_0::decode),
        DType::TQ2_0 => decode_blocks(bytes, out, BlockTq2_0::decode),
        DType::NVFP4 => decode_blocks(bytes, out, BlockNvfp4::decode),
    }
    Ok(())
}

/// Encodes `values` as `dtype` and appends the bytes to `out`.
///
/// The float types accept every value and round per IEEE 754; the quantized types accept finite
/// values only. Values so small that the block's f16 scale underflows to 0 decode
/// to 0.
///
/// # Errors
///
/// [`Error::CannotEncode`] for the types without an encoder (see [`DType::has_encoder`]),
/// [`Error::PartialBlock`] if `values` is not a whole number of blocks, [`Error::OutOfRange`]
/// if a block cannot represent its values. `out` is unchanged on error.
pub fn encode(dtype: DType, values: &[f32], out: &mut Vec<u8>) -> Result<(), Error> {
    match dtype {
        DType::F32 => float::encode_f32(values, out),
        DType::F16 => float::encode_f16(values, out),
        DType::BF16 => float::encode_bf16(values, out),
        DType::Q4_0 => encode_blocks(dtype, values, out, BlockQ4_0::encode)?,
        DType::Q4_1 => encode_blocks(dtype, values, out, BlockQ4_1::encode)?,
        DType::Q5_0 => encode_blocks(dtype, values, out, BlockQ5_0::encode)?,
        DType::Q5_1 => encode_blocks(dtype, values, out, BlockQ5_1::encode)?,
        DType::Q8_0 => encode_blocks(dtype, values, out, BlockQ8_0::encode)?,
        DType::IQ4_XS => encode_blocks(dtype, values, out, BlockIq4Xs::encode)?,
        DType::MXFP4 => encode_blocks(dtype, values, out, BlockMxfp4::encode)?,
        DType::TQ1_0 => encode_blocks(dtype, values, out, BlockTq1_0::encode)?,
        DType::TQ2_0 => encode_blocks(dtype, values, out, BlockTq2_0::encode)?,
        DType::NVFP4 => encode_blocks(dtype, values, out, BlockNvfp4::encode)?,
        DType::Q4_K => encode_blocks(dtype, values, out, BlockQ4K::encode)?,
        DType::Q5_K => encode_blocks(dtype, values, out, BlockQ5K::encode)?,
        DType::Q6_K => encode_blocks(dtype, values, out, BlockQ6K::encode)?,
        DType::Q2_K
        | DType::Q3_K
        | DType::IQ4_NL
        | DType::IQ3_S
        | DType::IQ3_XXS
        | DType::IQ2_S
        | DType::IQ2_XS
        | DType::IQ2_XXS
        | DType::IQ1_S
        | DType::IQ1_M => return Err(Error::CannotEncode { dtype }),
    }
    Ok(())
}

/// Decodes block by block; `bytes` must hold exactly the blocks of `out`.
fn decode_blocks<B: Pod, const LEN: usize>(
    bytes: &[u8],
    out: &mut [f32],
    decode: impl Fn(&B, &mut [f32; LEN]),
) {
    // Blocks have alignment 1 (checked below), so the cast cannot fail on the address.
    for (block, values) in bytemuck::cast_slice(bytes).iter().zip(out.as_chunks_mut().0) {
        decode(block, values);
    }
}

fn encode_blocks<B: Pod, const LEN: usize>(
    dtype: DType,
    values: &[f32],
    out: &mut Vec<u8>,
    encode: impl Fn(&[f32; LEN]) -> Option<B>,
) -> Result<(), Error> {
    let (blocks, rest) = values.as_chunks();
    if !rest.is_empty() {
        return Err(Error::PartialBlock { dtype, len: values.len() });
    }
    let before = out.len();
    out.reserve(blocks.len() * size_of::<B>());
    for (i, values) in blocks.iter().enumerate() {
        // The search for the extreme value ignores NaNs, so they are rejected here.
        let block = values.iter().all(|v| v.is_finite()).then(|| encode(values)).flatten();
        let Some(block) = block else {
            out.truncate(before);
            return Err(Error::OutOfRange { dtype, start: i * LEN });
        };
        out.extend_from_slice(bytemuck::bytes_of(&block));
    }
    Ok(())
}

/// The typed layouts must have the sizes of the formats' blocks and alignment 1.
const _: () = {
    const fn check<B>(dtype: DType) {
        assert!(size_of::<B>() == dtype.block_bytes() && align_of::<B>() == 1);
    }
    check::<BlockQ4_0>(DType::Q4_0);
    check::<BlockQ4_1>(DType::Q4_1);
    check::<BlockQ5_0>(DType::Q5_0);
    check::<BlockQ5_1>(DType::Q5_1);
    check::<BlockQ8_0>(DType::Q8_0);
    check::<BlockQ2K>(DType::Q2_K);
    check::<BlockQ3K>(DType::Q3_K);
    check::<BlockQ4K>(DType::Q4_K);
    check::<BlockQ5K>(DType::Q5_K);
    check::<BlockQ6K>(DType::Q6_K);
    check::<BlockIq4Nl>(DType::IQ4_NL);
    check::<BlockIq4Xs>(DType::IQ4_XS);
    check::<BlockMxfp4>(DType::MXFP4);
    check::<BlockIq3S>(DType::IQ3_S);
    check::<BlockIq3Xxs>(DType::IQ3_XXS);
    check::<BlockIq2S>(DType::IQ2_S);
    check::<BlockIq2Xs>(DType::IQ2_XS);
    check::<BlockIq2Xxs>(DType::IQ2_XXS);
    check::<BlockIq1S>(DType::IQ1_S);
    check::<BlockIq1M>(DType::IQ1_M);
    check::<BlockTq1_0>(DType::TQ1_0);
    check::<BlockTq2_0>(DType::TQ2_0);
    check::<BlockNvfp4>(DType::NVFP4);
};
