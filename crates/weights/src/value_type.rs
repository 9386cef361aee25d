//! Types of metadata values.

use std::fmt;

/// The type of a metadata value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueType {
    /// 8 bits, unsigned.
    U8,
    /// 8 bits, signed.
    I8,
    /// 16 bits, unsigned.
    U16,
    /// 16 bits, signed.
    I16,
    /// 32 bits, unsigned.
    U32,
    /// 32 bits, signed.
    I32,
    /// IEEE 754 binary32.
    F32,
    /// A byte, 0 or 1.
    Bool,
    /// Bytes with a length prefix, usually UTF-8.
    String,
    /// Values of one type with a count prefix.
    Array,
    /// 64 bits, unsigned.
    U64,
    /// 64 bits, signed.
    I64,
    /// IEEE 754 binary64.
    F64,
}

impl ValueType {
    /// All types in the order of their ids (`gguf.md`, `gguf_metadata_value_type`).
    const ALL: [Self; 13] = [
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::U32,
        Self::I32,
        Self::F32,
        Self::Bool,
        Self::String,
        Self::Array,
        Self::U64,
        Self::I64,
        Self::F64,
    ];

    pub(crate) fn from_id(id: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(id).ok()?).copied()
    }

    pub(crate) fn id(self) -> u32 {
        self as u32
    }

    /// Bytes per value, or `None` for types of variable size.
    pub(crate) fn fixed_size(self) -> Option<usize> {
        match self {
            Self::U8 | Self::I8 | Self::Bool => Some(1),
            Self::U16 | Self::I16 => Some(2),
            Self::U32 | Self::I32 | Self::F32 => Some(4),
            Self::U64 | Self::I64 | Self::F64 => Some(8),
            Self::String | Self::Array => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::U16 => "u16",
            Self::I16 => "i16",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::F32 => "f32",
            Self::Bool => "bool",
            Self::String => "string",
            Self::Array => "array",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::F64 => "f64",
        }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
