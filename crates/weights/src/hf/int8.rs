//! Matrices of 8-bit integers with a scale, or one for each row (`int-quantized` of
//! compressed-tensors). Activations stay floats, whatever the file says of theirs.

use bytes::Bytes;
use pelton_quant::DType;

use super::stored::Source;

/// Weights in a block of Q8_0.
const BLOCK: usize = 32;

/// A matrix `[rows, columns]` as Q8_0 without loss, if `blocks` allows it and the scales are exact
/// in f16. All others are expanded to F16, or to F32 where F16 lacks the range. The error names
/// what was expected.
pub(super) fn expanded(
    source: &Source,
    scale: Option<&Source>,
    blocks: bool,
) -> Result<(DType, Bytes), String> {
    let &[rows, columns] = &*source.shape else {
        return Err(format!("has shape {:?} of type I8, expected a matrix", source.shape));
    };
    let scale = scale.ok_or("has type I8, but no weight_scale")?;
    let dtype = scale.stored.dtype().ok_or_else(|| {
        format!("has scales of type {:?}, expected F16, BF16 or F32", scale.stored)
    })?;
    let count = scale.shape.iter().product::<usize>();
    if count != 1 && count != rows {
        return Err(format!("has {count} scales, expected 1 or {rows}"));
    }
    let mut scales = vec![0.0; count];
    pelton_quant::decode(dtype, &scale.bytes, &mut scales).map_err(|error| error.to_string())?;
    let scale_of = |row: usize| scales[if count == 1 { 0 } else { row }];
    let (mut halves, mut back) = (Vec::new(), vec![0.0; count]);
    let exact = pelton_quant::encode(DType::F16, &scales, &mut halves).is_ok()
        && pelton_quant::decode(DType::F16, &halves, &mut back).is_ok()
        && back == scales;
    let codes = source.bytes.chunks_exact(columns.max(1)).enumerate();
    let mut out = Vec::new();
    if blocks && exact && columns.is_multiple_of(BLOCK) {
        for (row, codes) in codes {
            for block in codes.chunks_exact(BLOCK) {
                // f16 takes every number
                let _ = pelton_quant::encode(DType::F16, &[scale_of(row)], &mut out);
                out.extend(block);
            }
        }
        return Ok((DType::Q8_0, out.into()));
    }
    let fits = scales.iter().all(|scale| (scale * 128.0).abs() <= 65504.0);
    let dtype = if fits { DType::F16 } else { DType::F32 };
    for (row, codes) in codes {
        let value = |&code: &u8| scale_of(row) * f32::from(code.cast_signed());
        let values: Vec<f32> = codes.iter().map(value).collect();
        pelton_quant::encode(dtype, &values, &mut out).map_err(|error| error.to_string())?;
    }
    Ok((dtype, out.into()))
}
