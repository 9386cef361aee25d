//! NVFP4 of MLX in the layout of GGUF.
//!
//! A group is 16 numbers of E2M1 and an E4M3 scale. MLX stores number `2j` in the low half of byte
//! `j` and `2j + 1` in the high half. A block of GGUF has four groups: their scales, and then for
//! each group number `j` in the low half and `j + 8` in the high half of byte `j`.

use bytes::Bytes;
use pelton_quant::DType;

/// Numbers of a group.
const GROUP: usize = 16;
/// Groups of a block.
const GROUPS: usize = 4;
/// The scale that is no number.
const NAN: u8 = 0x7f;

/// Blocks if `blocks`, where rows are whole ones, or else BF16, which has all values. The error
/// names a scale that no weights have.
pub(super) fn loaded(codes: &[u8], scales: &[u8], blocks: bool) -> Result<(DType, Bytes), String> {
    if let Some(scale) = scales.iter().find(|&&scale| scale >= NAN) {
        return Err(format!("has the scale {scale:#04x}, expected an E4M3 number of at least 0"));
    }
    let packed = packed(codes, scales);
    if blocks {
        return Ok((DType::NVFP4, packed));
    }
    let mut values = vec![0.0; codes.len() * 2 / (GROUP * GROUPS) * (GROUP * GROUPS)];
    let mut rest = vec![0.0; GROUP * GROUPS];
    let whole = values.len() / (GROUP * GROUPS) * DType::NVFP4.block_bytes();
    let (of_whole, of_rest) = packed.split_at(whole);
    let wrong = |error: pelton_quant::Error| error.to_string();
    pelton_quant::decode(DType::NVFP4, of_whole, &mut values).map_err(wrong)?;
    if !of_rest.is_empty() {
        pelton_quant::decode(DType::NVFP4, of_rest, &mut rest).map_err(wrong)?;
        values.extend(&rest[..codes.len() * 2 - values.len()]);
    }
    let mut out = Vec::with_capacity(values.len() * 2);
    pelton_quant::encode(DType::BF16, &values, &mut out).map_err(wrong)?;
    Ok((DType::BF16, out.into()))
}

/// All groups in blocks, the last of which is filled up with zeros.
fn packed(codes: &[u8], scales: &[u8]) -> Bytes {
    let code = |codes: &[u8], index: usize| (codes[index / 2] >> (4 * (index % 2))) & 15;
    let mut out = Vec::with_capacity(codes.len() + scales.len());
    let blocks = codes.chunks(GROUP / 2 * GROUPS).zip(scales.chunks(GROUPS));
    for (codes, scales) in blocks {
        let mut block = [0; GROUPS + GROUP / 2 * GROUPS];
        block[..scales.len()].copy_from_slice(scales);
        let groups = codes.chunks_exact(GROUP / 2).zip(block[GROUPS..].chunks_exact_mut(GROUP / 2));
        for (codes, out) in groups {
            for (j, out) in out.iter_mut().enumerate() {
                *out = code(codes, j) | code(codes, j + GROUP / 2) << 4;
            }
        }
        out.extend(block);
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Six groups: a block and a half.
    #[test]
    fn floats_are_those_of_blocks() {
        let codes: Vec<u8> = (0..6 * GROUP as u32 / 2).map(|i| (i * 37 % 251) as u8).collect();
        let scales = [1, 8, 0x38, 0x7e, 0x45, 0];
        let (dtype, floats) = loaded(&codes, &scales, false).unwrap();
        assert_eq!((dtype, floats.len()), (DType::BF16, 6 * GROUP * 2));
        let mut found = vec![0.0; 6 * GROUP];
        pelton_quant::decode(DType::BF16, &floats, &mut found).unwrap();
        let (dtype, blocks) = loaded(&codes, &scales, true).unwrap();
        assert_eq!((dtype, blocks.len()), (DType::NVFP4, 2 * 36));
        let mut expected = vec![0.0; 2 * GROUP * GROUPS];
        pelton_quant::decode(DType::NVFP4, &blocks, &mut expected).unwrap();
        assert_eq!(found, expected[..6 * GROUP]);
        assert!(expected[6 * GROUP..].iter().all(|value| *value == 0.0));
        assert!(loaded(&codes, &[0x80; 6], true).is_err());
    }
}
