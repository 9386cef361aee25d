//! Tensors as they lie in safetensors files.

use bytes::Bytes;
use pelton_quant::DType;

use crate::Problem;
use crate::gguf::TensorEntry;

/// Element type of a safetensors file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    F64,
    F32,
    F16,
    BF16,
    /// FP8 with 4 bits of exponent, no infinities (OCP, "E4M3").
    F8E4M3,
    /// FP8 with 5 bits of exponent.
    F8E5M2,
    /// A power of two, `2^(byte - 127)`.
    F8E8M0,
    I64,
    I32,
    I16,
    I8,
    U64,
    U32,
    U16,
    U8,
    Bool,
}

impl Stored {
    /// The type with this name in a header.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "F64" => Self::F64,
            "F32" => Self::F32,
            "F16" => Self::F16,
            "BF16" => Self::BF16,
            "F8_E4M3" => Self::F8E4M3,
            "F8_E5M2" => Self::F8E5M2,
            "F8_E8M0" => Self::F8E8M0,
            "I64" => Self::I64,
            "I32" => Self::I32,
            "I16" => Self::I16,
            "I8" => Self::I8,
            "U64" => Self::U64,
            "U32" => Self::U32,
            "U16" => Self::U16,
            "U8" => Self::U8,
            "BOOL" => Self::Bool,
            _ => return None,
        })
    }

    /// Bytes per element.
    pub(super) fn size(self) -> usize {
        match self {
            Self::F64 | Self::I64 | Self::U64 => 8,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F16 | Self::BF16 | Self::I16 | Self::U16 => 2,
            Self::F8E4M3 | Self::F8E5M2 | Self::F8E8M0 | Self::I8 | Self::U8 | Self::Bool => 1,
        }
    }

    /// The same type in a checkpoint, for the floats that checkpoints have.
    pub(super) fn dtype(self) -> Option<DType> {
        match self {
            Self::F32 => Some(DType::F32),
            Self::F16 => Some(DType::F16),
            Self::BF16 => Some(DType::BF16),
            _ => None,
        }
    }
}

/// A tensor of a safetensors file, whose bytes have the size of its shape and type.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) name: String,
    pub(super) stored: Stored,
    /// Outermost dimension first.
    pub(super) shape: Vec<usize>,
    pub(super) bytes: Bytes,
}

impl Source {
    /// An error about the tensor.
    pub(super) fn fault(&self, fault: String) -> Problem {
        Problem::SafetensorsTensor { tensor: self.name.clone(), fault }
    }

    /// A tensor that is made of this one; `shape` has the outermost dimension first.
    pub(super) fn entry(
        &self,
        name: String,
        dtype: DType,
        shape: &[usize],
        bytes: Bytes,
    ) -> Result<TensorEntry, Problem> {
        let shape: Vec<_> = shape.iter().rev().copied().collect();
        TensorEntry::new(name, dtype, &shape, bytes)
            .ok_or_else(|| self.fault(format!("has shape {shape:?}, expected 1 to 4 dimensions")))
    }
}
