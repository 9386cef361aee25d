//! Decoding and encoding of slices: length checks, dispatch on the type, the loop over blocks.

use bytemuck::Pod;

use crate::few_bits::{BlockQ1_0, BlockQ2_0};
use crate::fp4::{BlockMxfp4, BlockNvfp4};
use crate::iq1::{BlockIq1M, BlockIq1S};
use crate::iq2::{BlockIq2S, BlockIq2Xs, BlockIq2Xxs};
use crate::iq3::{BlockIq3S, BlockIq3Xxs};
use crate::iq4::{BlockIq4Nl, BlockIq4Xs};
use crate::k_quants::{BlockQ2K, BlockQ3K, BlockQ4K, BlockQ5K, BlockQ6K};
use crate::parts::Parts;
use crate::q4::{BlockQ4_0, BlockQ4_1};
use crate::q5::{BlockQ5_0, BlockQ5_1};
use crate::q8::BlockQ8_0;
use crate::ternary::{BlockTq1_0, BlockTq2_0};
use crate::{DType, Error, float, iq4, q4, q5};

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
        DType::Q2_0 => decode_blocks(bytes, out, BlockQ2_0::decode),
        DType::Q1_0 => decode_blocks(bytes, out, BlockQ1_0::decode),
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
    encode_any(dtype, values, None, out)
}

/// Encodes whole rows like [`encode`], where errors in some columns weigh more than in others.
///
/// `importance` has a finite value of at least 0 for each column of a row: the mean square of the
/// matrix's input there. Only the ratios within a block matter. The float types, Q8_0, MXFP4,
/// NVFP4, TQ1_0, TQ2_0, Q2_0 and Q1_0 have the bytes of [`encode`].
///
/// # Errors
///
/// Those of [`encode`]; [`Error::ImportanceLength`] if the values are no whole number of rows, and
/// [`Error::Importance`] if an importance is negative, infinite or NaN. `out` is unchanged on
/// error.
///
/// ```
/// use pelton_quant::{DType, decode, encode, encode_weighted};
///
/// let row: Vec<f32> = (0..256).map(|i| (i as f32 * 0.7).sin()).collect();
/// let importance: Vec<f32> = (0..256).map(|i| if i % 8 == 0 { 50.0 } else { 1.0 }).collect();
/// let (mut plain, mut weighted) = (Vec::new(), Vec::new());
/// encode(DType::Q4_K, &row, &mut plain)?;
/// encode_weighted(DType::Q4_K, &row, &importance, &mut weighted)?;
/// let error = |bytes: &[u8]| -> f32 {
///     let mut back = vec![0.0; 256];
///     decode(DType::Q4_K, bytes, &mut back).unwrap();
///     (0..256).map(|i| importance[i] * (row[i] - back[i]).powi(2)).sum()
/// };
/// assert!(error(&weighted) < error(&plain));
/// # Ok::<(), pelton_quant::Error>(())
/// ```
pub fn encode_weighted(
    dtype: DType,
    values: &[f32],
    importance: &[f32],
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    if importance.is_empty() || !values.len().is_multiple_of(importance.len()) {
        return Err(Error::ImportanceLength { len: values.len(), found: importance.len() });
    }
    if !importance.len().is_multiple_of(dtype.block_len()) {
        return Err(Error::PartialBlock { dtype, len: importance.len() });
    }
    let invalid = importance.iter().position(|v| !v.is_finite() || *v < 0.0);
    match invalid {
        Some(index) => Err(Error::Importance { index, value: importance[index].to_string() }),
        None => encode_any(dtype, values, Some(importance), out),
    }
}

fn encode_any(
    dtype: DType,
    values: &[f32],
    importance: Option<&[f32]>,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let to = Blocks { dtype, values, importance, out };
    match dtype {
        DType::F32 => float::encode_f32(values, to.out),
        DType::F16 => float::encode_f16(values, to.out),
        DType::BF16 => float::encode_bf16(values, to.out),
        DType::Q4_0 => to.encode::<BlockQ4_0, 32>()?,
        DType::Q4_1 => to.encode::<BlockQ4_1, 32>()?,
        DType::Q5_0 => to.encode::<BlockQ5_0, 32>()?,
        DType::Q5_1 => to.encode::<BlockQ5_1, 32>()?,
        DType::Q8_0 => to.encode::<BlockQ8_0, 32>()?,
        DType::Q2_K => to.encode::<BlockQ2K, 256>()?,
        DType::Q3_K => to.encode::<BlockQ3K, 256>()?,
        DType::Q4_K => to.encode::<BlockQ4K, 256>()?,
        DType::Q5_K => to.encode::<BlockQ5K, 256>()?,
        DType::Q6_K => to.encode::<BlockQ6K, 256>()?,
        DType::IQ4_NL => to.encode::<BlockIq4Nl, 32>()?,
        DType::IQ4_XS => to.encode::<BlockIq4Xs, 256>()?,
        DType::MXFP4 => to.encode::<BlockMxfp4, 32>()?,
        DType::TQ1_0 => to.encode::<BlockTq1_0, 256>()?,
        DType::TQ2_0 => to.encode::<BlockTq2_0, 256>()?,
        DType::NVFP4 => to.encode::<BlockNvfp4, 64>()?,
        DType::Q2_0 => to.encode::<BlockQ2_0, 64>()?,
        DType::Q1_0 => to.encode::<BlockQ1_0, 128>()?,
        DType::IQ3_S
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

/// A block of `LEN` values that can be encoded, with the importance of each value, of at most 1.
///
/// A trait in place of closures: calls of closures are not inlined where the caller has more
/// instructions.
trait Encode<const LEN: usize>: Pod {
    /// The block, or `None` if it cannot represent the values.
    fn encode(values: &[f32; LEN], importance: Option<&[f32; LEN]>) -> Option<Self>;
}

/// Encoders that take the importance into account.
macro_rules! weighted_encoders {
    ($($block:ty, $len:literal;)*) => {
        $(impl Encode<$len> for $block {
            #[inline(always)]
            fn encode(values: &[f32; $len], importance: Option<&[f32; $len]>) -> Option<Self> {
                Self::encode(values, importance)
            }
        })*
    };
}

weighted_encoders! {
    BlockQ2K, 256;
    BlockQ3K, 256;
    BlockQ4K, 256;
    BlockQ5K, 256;
    BlockQ6K, 256;
    BlockIq4Nl, 32;
    BlockIq4Xs, 256;
}

/// Encoders of another form if there is an importance.
macro_rules! encoders_by_form {
    ($($block:ty;)*) => {
        $(impl Encode<32> for $block {
            #[inline(always)]
            fn encode(values: &[f32; 32], importance: Option<&[f32; 32]>) -> Option<Self> {
                match importance {
                    None => Self::encode(values),
                    Some(importance) => Self::encode_weighted(values, importance),
                }
            }
        })*
    };
}

encoders_by_form! {
    BlockQ4_0;
    BlockQ4_1;
    BlockQ5_0;
    BlockQ5_1;
}

/// Encoders without importance.
macro_rules! plain_encoders {
    ($($block:ty, $len:literal;)*) => {
        $(impl Encode<$len> for $block {
            #[inline(always)]
            fn encode(values: &[f32; $len], _: Option<&[f32; $len]>) -> Option<Self> {
                Self::encode(values)
            }
        })*
    };
}

plain_encoders! {
    BlockQ8_0, 32;
    BlockMxfp4, 32;
    BlockNvfp4, 64;
    BlockTq1_0, 256;
    BlockTq2_0, 256;
    BlockQ2_0, 64;
    BlockQ1_0, 128;
}

/// Values to be encoded, with the importance of the columns of their rows.
struct Blocks<'a> {
    dtype: DType,
    values: &'a [f32],
    importance: Option<&'a [f32]>,
    out: &'a mut Vec<u8>,
}

impl Blocks<'_> {
    /// Encodes block by block; rows are a whole number of blocks. AVX2 changes no bit: no operation
    /// is fused.
    fn encode<B: Encode<LEN>, const LEN: usize>(self) -> Result<(), Error> {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has AVX2, by the line above
            return unsafe { self.encode_with_avx2::<B, LEN>() };
        }
        self.encode_blocks::<B, LEN>()
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn encode_with_avx2<B: Encode<LEN>, const LEN: usize>(self) -> Result<(), Error> {
        self.encode_blocks::<B, LEN>()
    }

    #[inline(always)]
    fn encode_blocks<B: Encode<LEN>, const LEN: usize>(self) -> Result<(), Error> {
        let Self { dtype, values, importance, out } = self;
        let (blocks, rest) = values.as_chunks();
        if !rest.is_empty() {
            return Err(Error::PartialBlock { dtype, len: values.len() });
        }
        let columns = importance.map(|importance| importance.as_chunks().0);
        let before = out.len();
        out.reserve(blocks.len() * size_of::<B>());
        for (i, values) in blocks.iter().enumerate() {
            let importance = columns.map(|columns| relative(&columns[i % columns.len()]));
            // The search for the extreme value ignores NaNs, so they are rejected here.
            let finite = values.iter().all(|v| v.is_finite());
            let block = if finite { B::encode(values, importance.as_ref()) } else { None };
            let Some(block) = block else {
                out.truncate(before);
                return Err(Error::OutOfRange { dtype, start: i * LEN });
            };
            out.extend_from_slice(bytemuck::bytes_of(&block));
        }
        Ok(())
    }
}

/// Importance relative to the largest of a block, at least [`LEAST_IMPORTANCE`], so that no sum of
/// weights underflows.
fn relative<const LEN: usize>(importance: &[f32; LEN]) -> [f32; LEN] {
    let largest = importance.iter().fold(0.0f32, |largest, &v| largest.max(v));
    if largest == 0.0 {
        return [1.0; LEN];
    }
    importance.map(|v| (v / largest).max(LEAST_IMPORTANCE))
}

const LEAST_IMPORTANCE: f32 = 1e-9;

impl Parts {
    /// The parts of finite values; `None` if the type has no blocks of codes of 4 or 5 bits.
    #[inline]
    pub fn of(dtype: DType, values: &[f32; 32]) -> Option<Self> {
        Some(match dtype {
            DType::Q4_0 => q4::symmetric(values),
            DType::Q4_1 => q4::affine(values),
            DType::Q5_0 => q5::symmetric(values),
            DType::Q5_1 => q5::affine(values),
            DType::IQ4_NL => iq4::plain(values),
            _ => return None,
        })
    }
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
    check::<BlockQ2_0>(DType::Q2_0);
    check::<BlockQ1_0>(DType::Q1_0);
};
