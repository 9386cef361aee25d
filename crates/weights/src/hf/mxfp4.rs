//! MXFP4 blocks of gpt-oss in the layout of GGUF.
//!
//! A block is 32 numbers of E2M1 and a scale `2^(byte - 127)` (OCP Microscaling Formats 1.0).
//! gpt-oss stores number `2j` in the low half of byte `j` and `2j + 1` in the high half. GGUF
//! stores number `j` in the low half and `j + 16` in the high half of byte `j`, after the scale.

use bytes::Bytes;
use pelton_quant::DType;

/// Numbers per block.
pub(super) const BLOCK: usize = 32;

/// Bytes of the codes of a block.
const CODES: usize = BLOCK / 2;

/// The values of the codes.
const E2M1: [f32; 16] =
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

/// The type of MXFP4 blocks, if this build has it.
pub(super) fn dtype() -> Option<DType> {
    DType::from_name("MXFP4")
}

/// Number `index` of a block of gpt-oss.
fn code(codes: &[u8], index: usize) -> u8 {
    (codes[index / 2] >> (4 * (index % 2))) & 15
}

/// Blocks from codes and scales: of MXFP4, or of BF16 in a build without that type, which has all
/// of their values.
pub(super) fn blocks(codes: &[u8], scales: &[u8]) -> (DType, Bytes) {
    match dtype() {
        Some(dtype) => (dtype, packed(codes, scales)),
        None => floats(codes, scales),
    }
}

/// The numbers as BF16, which has all of them.
pub(super) fn floats(codes: &[u8], scales: &[u8]) -> (DType, Bytes) {
    (DType::BF16, expanded(codes, scales))
}

fn packed(codes: &[u8], scales: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(codes.len() + scales.len());
    for (codes, &scale) in codes.chunks_exact(CODES).zip(scales) {
        out.push(scale);
        out.extend((0..CODES).map(|j| code(codes, j) | code(codes, j + CODES) << 4));
    }
    out.into()
}

fn expanded(codes: &[u8], scales: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(codes.len() * 4);
    for (codes, &scale) in codes.chunks_exact(CODES).zip(scales) {
        let scale = 2f32.powi(i32::from(scale) - 127);
        for index in 0..BLOCK {
            let value = E2M1[usize::from(code(codes, index))] * scale;
            // Two bits of mantissa, so that no rounding is needed.
            out.extend(((value.to_bits() >> 16) as u16).to_le_bytes());
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_placed_as_in_gguf() {
        let codes: Vec<u8> = (0..16).map(|j| (2 * j % 16) | (((2 * j + 1) % 16) << 4)).collect();
        // Number i has the code i mod 16.
        let packed = packed(&codes, &[127]);
        assert_eq!(packed[0], 127);
        assert!(packed[1..].iter().zip(0u8..).all(|(&byte, j)| byte == j | j << 4));
        let expanded = expanded(&codes, &[128]);
        let mut values = vec![0.0; 32];
        pelton_quant::decode(DType::BF16, &expanded, &mut values).unwrap();
        let expected: Vec<_> = E2M1.iter().chain(&E2M1).map(|value| 2.0 * value).collect();
        assert_eq!(values, expected);
    }
}
