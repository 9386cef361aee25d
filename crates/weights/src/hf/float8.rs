//! Expansion of FP8 tensors with scales to BF16.

use bytes::Bytes;

use super::stored::{Source, Stored};

/// Width of DeepSeek's blocks, which have one scale each.
const BLOCK: usize = 128;

/// The value of an FP8 number with 4 bits of exponent and no infinities (OCP 8-bit floating
/// point specification 1.0, "E4M3").
fn e4m3(byte: u8) -> f32 {
    let (exponent, mantissa) = (i32::from((byte >> 3) & 15), f32::from(byte & 7));
    let magnitude = match (exponent, byte & 7) {
        (15, 7) => f32::NAN,
        (0, _) => mantissa / 512.0,
        _ => (1.0 + mantissa / 8.0) * 2f32.powi(exponent - 7),
    };
    if byte & 0x80 == 0 { magnitude } else { -magnitude }
}

/// The value of an FP8 number with 5 bits of exponent (the upper half of an f16).
fn e5m2(byte: u8) -> f32 {
    let mut value = [0.0];
    match pelton_quant::decode(pelton_quant::DType::F16, &[0, byte], &mut value) {
        Ok(()) => value[0],
        Err(_) => f32::NAN,
    }
}

/// E4M3 numbers with a power of two for each `group`, as BF16: that has all but the smallest.
pub(super) fn with_powers(codes: &[u8], powers: &[u8], group: usize) -> Bytes {
    let table: [f32; 256] = std::array::from_fn(|byte| e4m3(byte as u8));
    let mut out = Vec::with_capacity(codes.len() * 2);
    for (codes, &power) in codes.chunks_exact(group).zip(powers) {
        let scale = f64::from(2f32).powi(i32::from(power) - 127);
        let values = codes.iter().map(|&code| f64::from(table[usize::from(code)]) * scale);
        let values: Vec<f32> = values.map(|value| value as f32).collect();
        // BF16 takes every number
        let _ = pelton_quant::encode(pelton_quant::DType::BF16, &values, &mut out);
    }
    out.into()
}

/// Scales as f32.
fn scales(scale: &Source) -> Option<Vec<f32>> {
    match scale.stored {
        Stored::F8E8M0 => {
            Some(scale.bytes.iter().map(|&byte| 2f32.powi(i32::from(byte) - 127)).collect())
        }
        other => {
            let mut values = vec![0.0; scale.bytes.len() / other.size()];
            pelton_quant::decode(other.dtype()?, &scale.bytes, &mut values).ok()?;
            Some(values)
        }
    }
}

/// Expands an FP8 matrix `[rows, columns]`; `scale` has one number, one a row, or one per block
/// of 128 × 128. The error names what was expected.
pub(super) fn expanded(source: &Source, scale: Option<&Source>) -> Result<Bytes, String> {
    let decode: fn(u8) -> f32 = match source.stored {
        Stored::F8E4M3 => e4m3,
        Stored::F8E5M2 => e5m2,
        other => return Err(format!("has type {other:?}, expected FP8")),
    };
    let table: Vec<f32> = (0..=255).map(decode).collect();
    let columns = source.shape.last().copied().unwrap_or(1).max(1);
    let rows = source.bytes.len() / columns;
    let (values, of_row, block) = match scale {
        None => (vec![1.0], 0, usize::MAX),
        Some(scale) => {
            let values =
                scales(scale).ok_or_else(|| format!("has scales of type {:?}", scale.stored))?;
            let blocks = (rows.div_ceil(BLOCK), columns.div_ceil(BLOCK));
            match values.len() {
                1 => (values, 0, usize::MAX),
                n if n == rows => (values, 1, usize::MAX),
                n if n == blocks.0 * blocks.1 => (values, blocks.1, BLOCK),
                n => {
                    return Err(format!(
                        "has {n} scales, expected 1, {rows} or {} × {}",
                        blocks.0, blocks.1
                    ));
                }
            }
        }
    };
    let mut out = Vec::with_capacity(source.bytes.len() * 2);
    for (row, codes) in source.bytes.chunks_exact(columns).enumerate() {
        let group = if block == usize::MAX { row } else { row / block };
        for (index, codes) in codes.chunks(block.min(columns)).enumerate() {
            let scale = values[group * of_row + index];
            for &code in codes {
                let value = table[usize::from(code)] * scale;
                out.extend(bf16(value).to_le_bytes());
            }
        }
    }
    Ok(out.into())
}

/// The nearest BF16 number, ties to even.
fn bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the OCP specification: largest, smallest normal, smallest subnormal.
    #[test]
    fn e4m3_values() {
        assert_eq!([0x7E, 0x08, 0x01, 0xB8].map(e4m3), [448.0, 0.015625, 0.001953125, -1.0]);
        assert!(e4m3(0x7F).is_nan() && e4m3(0xFF).is_nan());
        assert_eq!([0x7B, 0x3C, 0x01].map(e5m2), [57344.0, 1.0, 2f32.powi(-16)]);
    }
}
