//! Blocks of 32 elements in parts, rounded as ggml rounds keys and values: without a search for
//! scales (`quantize_row_*_ref` of `ggml-quants.c`).

use crate::dtype::DType;
use crate::{iq4, q4, q5};

/// A block of 32 elements. Element `i` is `d * (codes[i] - offset) + m` with the offset of the
/// type, or `d * IQ4_NL_LEVELS[codes[i]]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parts {
    /// The scale, which a block stores in f16.
    pub d: f32,
    /// The minimum, which a block stores in f16; 0 if the type has none.
    pub m: f32,
    /// The codes in element order.
    pub codes: [u8; 32],
}

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
