//! Element type and pages of the KV caches.

use std::{fmt, str::FromStr};

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

/// The element type of the KV caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KvType {
    /// IEEE 754 binary16.
    #[default]
    F16,
    /// IEEE 754 binary32: twice the memory of f16; for comparison with results in f32.
    F32,
    /// Eight bits per element, in blocks of 32 elements of one head with an f16 scale: about half
    /// the memory of f16, less exact.
    Q8_0,
}

impl KvType {
    /// Bytes of `len` elements, in whole blocks.
    pub const fn bytes(self, len: usize) -> usize {
        match self {
            Self::F16 => 2 * len,
            Self::F32 => 4 * len,
            Self::Q8_0 => 34 * len.div_ceil(32),
        }
    }
}

impl fmt::Display for KvType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F16 => "f16",
            Self::F32 => "f32",
            Self::Q8_0 => "q8_0",
        })
    }
}

impl FromStr for KvType {
    type Err = String;

    /// Parses the name, in any case.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "f16" => Ok(Self::F16),
            "f32" => Ok(Self::F32),
            "q8_0" => Ok(Self::Q8_0),
            _ => Err("expected f16, f32 or q8_0".to_owned()),
        }
    }
}
