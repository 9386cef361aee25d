//! Rows packed in panels, for instruction sets with vectors of eight lanes.
//!
//! A panel holds eight rows block by block. The blocks of the rows are interleaved in units of four
//! bytes, so that a vector is one load instead of eight and a transposition, and the scale that
//! makes the bytes of a block no multiple of four, in units of two. A field at offset `n` of a block
//! begins at `8 n` of the panel's block, and the panel has as many bytes as its rows.

use pelton_quant::DType;

/// Rows of a panel.
pub const PACKED_ROWS: usize = 8;

/// The offset of the two bytes of a block that are a unit of their own, if any.
fn lone_half(dtype: DType) -> Option<usize> {
    let bytes = dtype.block_bytes();
    match dtype {
        DType::Q3_K | DType::Q6_K => Some(bytes - 2),
        _ if bytes % 4 == 2 => Some(0),
        _ => None,
    }
}

/// Whether there are kernels for packed rows of a type, and `rows` are whole panels.
pub fn can_pack(dtype: DType, rows: usize) -> bool {
    let has_kernels = matches!(
        dtype,
        DType::Q4_0
            | DType::Q4_1
            | DType::Q5_0
            | DType::Q5_1
            | DType::Q8_0
            | DType::IQ4_NL
            | DType::Q2_K
            | DType::Q3_K
            | DType::Q4_K
            | DType::Q5_K
            | DType::Q6_K
    );
    has_kernels && rows.is_multiple_of(PACKED_ROWS)
}

/// Packs eight rows of blocks.
///
/// # Panics
/// If `rows` and `panel` have different lengths, or are not eight rows of blocks.
pub fn pack(dtype: DType, rows: &[u8], panel: &mut [u8]) {
    let block = dtype.block_bytes();
    assert_eq!(rows.len(), panel.len(), "a panel has as many bytes as its rows");
    assert!(rows.len().is_multiple_of(PACKED_ROWS * block), "a panel has eight rows of blocks");
    let stride = rows.len() / PACKED_ROWS;
    let lone = lone_half(dtype);
    for (i, to) in panel.chunks_exact_mut(PACKED_ROWS * block).enumerate() {
        let mut offset = 0;
        while offset < block {
            let len = if lone == Some(offset) { 2 } else { 4 };
            let to = &mut to[offset * PACKED_ROWS..(offset + len) * PACKED_ROWS];
            let from = &rows[i * block + offset..];
            if len == 4 {
                for (row, to) in to.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                    to.copy_from_slice(&from[row * stride..][..4]);
                }
            } else {
                for (row, to) in to.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                    to.copy_from_slice(&from[row * stride..][..2]);
                }
            }
            offset += len;
        }
    }
}
