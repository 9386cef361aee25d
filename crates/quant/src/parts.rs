//! Blocks of 32 elements in parts, rounded as ggml rounds keys and values: without a search for
//! scales (`quantize_row_*_ref` of `ggml-quants.c`).

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
