//! Element types and pages of the KV caches.

use std::{fmt, str::FromStr};

use pelton_quant::DType;

/// Positions in a page of the KV caches.
///
/// A page is the unit in which cache memory is allocated, referenced and freed. The keys of one
/// head in a page of 64 positions are a few consecutive kilobytes. This is long enough for
/// streaming reads, and short enough that the unused end of a sequence's last page costs little.
pub const PAGE: usize = 64;

/// Pages that `positions` positions need.
pub const fn pages_for(positions: usize) -> usize {
    positions.div_ceil(PAGE)
}

/// The element type of keys or of values.
///
/// The block types have blocks of 32 neighbouring elements of one head, with the scales and the
/// rounding of the block types of weights of those names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KvElement {
    /// IEEE 754 binary16.
    #[default]
    F16,
    /// IEEE 754 binary32: twice the memory of f16; for comparison with results in f32.
    F32,
    /// The upper half of an f32.
    Bf16,
    /// 8 bits and a scale: about half the memory of f16.
    Q8_0,
    /// 5 bits, a scale and a minimum.
    Q5_1,
    /// 5 bits and a scale.
    Q5_0,
    /// 4 bits, a scale and a minimum.
    Q4_1,
    /// 4 bits and a scale: little more than a quarter of the memory of f16.
    Q4_0,
    /// 4 bits, indices into 16 uneven levels, and a scale.
    Iq4Nl,
}

/// The parts of a block of 32 elements. Element `i` is `d * (code[i] - offset) + m`, or
/// `d * level[code[i]]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvBlock {
    /// Bits of a code: 4, 5 or 8. Codes of 8 bits have signs.
    pub bits: u32,
    /// The number that is subtracted from a code.
    pub offset: i8,
    /// Whether a block has a minimum `m` next to its scale.
    pub has_min: bool,
    /// Whether codes are indices into the levels of IQ4_NL.
    pub uneven: bool,
}

impl KvElement {
    /// All types.
    pub const ALL: [Self; 9] = [
        Self::F16,
        Self::F32,
        Self::Bf16,
        Self::Q8_0,
        Self::Q5_1,
        Self::Q5_0,
        Self::Q4_1,
        Self::Q4_0,
        Self::Iq4Nl,
    ];

    /// Elements of a block.
    pub const BLOCK: usize = 32;

    /// The type of tensors with the same elements.
    pub const fn dtype(self) -> DType {
        match self {
            Self::F16 => DType::F16,
            Self::F32 => DType::F32,
            Self::Bf16 => DType::BF16,
            Self::Q8_0 => DType::Q8_0,
            Self::Q5_1 => DType::Q5_1,
            Self::Q5_0 => DType::Q5_0,
            Self::Q4_1 => DType::Q4_1,
            Self::Q4_0 => DType::Q4_0,
            Self::Iq4Nl => DType::IQ4_NL,
        }
    }

    /// The parts of its blocks; `None` for single elements.
    pub const fn block(self) -> Option<KvBlock> {
        const fn block(bits: u32, offset: i8, has_min: bool, uneven: bool) -> Option<KvBlock> {
            Some(KvBlock { bits, offset, has_min, uneven })
        }
        match self {
            Self::F16 | Self::F32 | Self::Bf16 => None,
            Self::Q8_0 => block(8, 0, false, false),
            Self::Q5_1 => block(5, 0, true, false),
            Self::Q5_0 => block(5, 16, false, false),
            Self::Q4_1 => block(4, 0, true, false),
            Self::Q4_0 => block(4, 8, false, false),
            Self::Iq4Nl => block(4, 0, false, true),
        }
    }

    /// Bytes of `len` elements, in whole blocks.
    pub const fn bytes(self, len: usize) -> usize {
        let dtype = self.dtype();
        dtype.block_bytes() * len.div_ceil(dtype.block_len())
    }
}

impl fmt::Display for KvElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.dtype().name().to_ascii_lowercase())
    }
}

impl FromStr for KvElement {
    type Err = String;

    /// Parses the name, in any case.
    fn from_str(text: &str) -> Result<Self, String> {
        let is_named = |kv: &Self| kv.dtype().name().eq_ignore_ascii_case(text);
        Self::ALL.into_iter().find(is_named).ok_or_else(|| format!("expected {}", KvType::EXPECTED))
    }
}

/// The element types of keys and of values in the KV caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KvType {
    /// The type of keys, and of values that are a prefix of them.
    pub keys: KvElement,
    /// The type of values.
    pub values: KvElement,
}

impl KvType {
    /// Both in [`KvElement::F16`].
    pub const F16: Self = Self::both(KvElement::F16);
    /// Both in [`KvElement::F32`].
    pub const F32: Self = Self::both(KvElement::F32);
    /// Both in [`KvElement::Q8_0`].
    pub const Q8_0: Self = Self::both(KvElement::Q8_0);

    /// The texts that [`from_str`](Self::from_str) parses, in words.
    pub const EXPECTED: &str = "f16, f32, bf16, q8_0, q5_1, q5_0, q4_1, q4_0 or iq4_nl, or one of them for \
                                keys and one for values, such as q8_0/q4_0";

    /// One type for keys and values.
    pub const fn both(element: KvElement) -> Self {
        Self { keys: element, values: element }
    }
}

impl fmt::Display for KvType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.keys == self.values {
            true => self.keys.fmt(f),
            false => write!(f, "{}/{}", self.keys, self.values),
        }
    }
}

impl FromStr for KvType {
    type Err = String;

    /// Parses a name for both, or two with `/` between them, in any case.
    fn from_str(text: &str) -> Result<Self, String> {
        let (keys, values) = text.split_once('/').unwrap_or((text, text));
        Ok(Self { keys: keys.parse()?, values: values.parse()? })
    }
}
