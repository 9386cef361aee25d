//! Element types of stored tensors and the sizes of their blocks.

use std::fmt;

/// Storage type of a tensor's elements.
///
/// A quantized tensor is a sequence of blocks along its rows: each block stores
/// [`block_len`](Self::block_len) elements in [`block_bytes`](Self::block_bytes) bytes. The
/// float types have blocks of one element.
/// The layouts are those of ggml (`ggml-common.h`), all little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(non_camel_case_types, reason = "the field writes these names so")]
pub enum DType {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary16.
    F16,
    /// The upper half of an F32.
    BF16,
    /// 4 bits, symmetric, one scale per 32 elements.
    Q4_0,
    /// 4 bits, a scale and a minimum per 32 elements.
    Q4_1,
    /// 5 bits, symmetric, one scale per 32 elements.
    Q5_0,
    /// 5 bits, a scale and a minimum per 32 elements.
    Q5_1,
    /// 8 bits, symmetric, one scale per 32 elements.
    Q8_0,
    /// 2 bits, super-blocks of 256 with a 4-bit scale and minimum per 16 elements.
    Q2_K,
    /// 3 bits, super-blocks of 256 with a 6-bit scale per 16 elements.
    Q3_K,
    /// 4 bits, super-blocks of 256 with a 6-bit scale and minimum per 32 elements.
    Q4_K,
    /// 5 bits, super-blocks of 256 with a 6-bit scale and minimum per 32 elements.
    Q5_K,
    /// 6 bits, super-blocks of 256 with an 8-bit scale per 16 elements.
    Q6_K,
    /// 4-bit indices into 16 fixed, unevenly spaced levels, one scale per 32 elements.
    IQ4_NL,
    /// The levels of IQ4_NL, super-blocks of 256 with a 6-bit scale per 32 elements.
    IQ4_XS,
    /// 4-bit floats (E2M1), a power of two as the scale per 32 elements (OCP Microscaling).
    MXFP4,
    /// 3 bits: indices into a codebook of 4 magnitudes, and signs; super-blocks of 256 with a 4-bit
    /// scale per 32 elements.
    IQ3_S,
    /// 3 bits, as IQ3_S with a smaller codebook and an even number of signs per 8 elements.
    IQ3_XXS,
    /// 2 bits: indices into a codebook of 8 magnitudes, and signs; super-blocks of 256 with a 4-bit
    /// scale per 16 elements.
    IQ2_S,
    /// 2 bits, as IQ2_S with a smaller codebook and an even number of signs per 8 elements.
    IQ2_XS,
    /// 2 bits, as IQ2_XS with a smaller codebook and a 4-bit scale per 32 elements.
    IQ2_XXS,
    /// 1.6 bits: indices into a codebook of 8 values -1, 0 and 1, shifted by an eighth.
    /// Super-blocks of 256 with a 3-bit scale and a shift per 32 elements.
    IQ1_S,
    /// 1.75 bits, as IQ1_S with a 3-bit scale per 16 elements and a shift per 8.
    IQ1_M,
    /// -1, 0 and 1, as digits to base 3, with one scale per 256 elements.
    TQ1_0,
    /// -1, 0 and 1 in 2 bits, with one scale per 256 elements.
    TQ2_0,
    /// 4-bit floats (E2M1), an 8-bit float (E4M3) as the scale per 16 elements.
    NVFP4,
    /// 2 bits: -1, 0, 1 and 2, with one scale per 64 elements.
    Q2_0,
    /// 1 bit: -1 and 1, with one scale per 128 elements.
    Q1_0,
}

impl DType {
    /// All types, in declaration order.
    pub const ALL: [Self; 28] = [
        Self::F32,
        Self::F16,
        Self::BF16,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q8_0,
        Self::Q2_K,
        Self::Q3_K,
        Self::Q4_K,
        Self::Q5_K,
        Self::Q6_K,
        Self::IQ4_NL,
        Self::IQ4_XS,
        Self::MXFP4,
        Self::IQ3_S,
        Self::IQ3_XXS,
        Self::IQ2_S,
        Self::IQ2_XS,
        Self::IQ2_XXS,
        Self::IQ1_S,
        Self::IQ1_M,
        Self::TQ1_0,
        Self::TQ2_0,
        Self::NVFP4,
        Self::Q2_0,
        Self::Q1_0,
    ];

    /// Elements per block; the length of a row must be a multiple of it.
    pub const fn block_len(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::BF16 => 1,
            Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q5_1 | Self::Q8_0 => 32,
            Self::IQ4_NL | Self::MXFP4 => 32,
            Self::NVFP4 | Self::Q2_0 => 64,
            Self::Q1_0 => 128,
            Self::Q2_K | Self::Q3_K | Self::Q4_K | Self::Q5_K | Self::Q6_K => 256,
            Self::IQ4_XS | Self::IQ3_S | Self::IQ3_XXS => 256,
            Self::IQ2_S | Self::IQ2_XS | Self::IQ2_XXS | Self::IQ1_S | Self::IQ1_M => 256,
            Self::TQ1_0 | Self::TQ2_0 => 256,
        }
    }

    /// Bytes per block.
    pub const fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::Q4_0 | Self::IQ4_NL => 18,
            Self::Q4_1 => 20,
            Self::Q5_0 => 22,
            Self::Q5_1 => 24,
            Self::Q8_0 => 34,
            Self::Q2_K => 84,
            Self::Q3_K => 110,
            Self::Q4_K => 144,
            Self::Q5_K => 176,
            Self::Q6_K => 210,
            Self::IQ4_XS => 136,
            Self::MXFP4 => 17,
            Self::IQ3_S => 110,
            Self::IQ3_XXS => 98,
            Self::IQ2_S => 82,
            Self::IQ2_XS => 74,
            Self::IQ2_XXS => 66,
            Self::IQ1_S => 50,
            Self::IQ1_M => 56,
            Self::TQ1_0 => 54,
            Self::TQ2_0 => 66,
            Self::NVFP4 => 36,
            Self::Q2_0 | Self::Q1_0 => 18,
        }
    }

    /// The type's name in ggml and its tools, such as `Q4_K`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::BF16 => "BF16",
            Self::Q4_0 => "Q4_0",
            Self::Q4_1 => "Q4_1",
            Self::Q5_0 => "Q5_0",
            Self::Q5_1 => "Q5_1",
            Self::Q8_0 => "Q8_0",
            Self::Q2_K => "Q2_K",
            Self::Q3_K => "Q3_K",
            Self::Q4_K => "Q4_K",
            Self::Q5_K => "Q5_K",
            Self::Q6_K => "Q6_K",
            Self::IQ4_NL => "IQ4_NL",
            Self::IQ4_XS => "IQ4_XS",
            Self::MXFP4 => "MXFP4",
            Self::IQ3_S => "IQ3_S",
            Self::IQ3_XXS => "IQ3_XXS",
            Self::IQ2_S => "IQ2_S",
            Self::IQ2_XS => "IQ2_XS",
            Self::IQ2_XXS => "IQ2_XXS",
            Self::IQ1_S => "IQ1_S",
            Self::IQ1_M => "IQ1_M",
            Self::TQ1_0 => "TQ1_0",
            Self::TQ2_0 => "TQ2_0",
            Self::NVFP4 => "NVFP4",
            Self::Q2_0 => "Q2_0",
            Self::Q1_0 => "Q1_0",
        }
    }

    /// Whether [`encode`](crate::encode) can write the type.
    pub const fn has_encoder(self) -> bool {
        !matches!(
            self,
            Self::IQ3_S
                | Self::IQ3_XXS
                | Self::IQ2_S
                | Self::IQ2_XS
                | Self::IQ2_XXS
                | Self::IQ1_S
                | Self::IQ1_M
        )
    }

    /// The type with this [`name`](Self::name).
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Bytes of `len` elements, or `None` if `len` is not a whole number of blocks or the
    /// product overflows.
    ///
    /// ```
    /// # use pelton_quant::DType;
    /// assert_eq!(DType::Q4_0.bytes_of(64), Some(36));
    /// assert_eq!(DType::Q4_0.bytes_of(33), None);
    /// ```
    pub const fn bytes_of(self, len: usize) -> Option<usize> {
        if !len.is_multiple_of(self.block_len()) {
            return None;
        }
        (len / self.block_len()).checked_mul(self.block_bytes())
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
