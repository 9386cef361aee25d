//! Quantized tensors of MLX: affine groups of 2 to 8 bits, and MXFP4.
//!
//! A module's `weight` has the codes as a stream of bits in u32 (little-endian, lowest bits first)
//! `[…, rows, columns × bits / 32]`. `scales` and `biases` have one number a group `[…, rows,
//! columns / group]`, and a weight is `scale · code + bias` (mlx
//! `python/mlx/nn/layers/quantized.py`). MXFP4 has no biases and scales of one byte.
//!
//! Codes of up to 4 bits become Q4_1 blocks and of 5 bits Q5_1 blocks if the scales and biases are
//! exact in f16. All others are expanded, for now: to F16 where the range allows it, else to F32.

use std::collections::HashMap;

use bytes::Bytes;
use pelton_quant::DType;

use super::config::Config;
use super::json::Object;
use super::mxfp4;
use super::stored::{Source, Stored};

/// Ends of the names of a quantized module's further tensors.
pub(super) const ENDS: [&str; 2] = [".scales", ".biases"];

/// Numbers in a block of Q4_1 and Q5_1.
const BLOCK: usize = 32;

/// How a module is quantized.
#[derive(Clone, Copy, Debug)]
struct Format {
    bits: usize,
    group: usize,
    /// MXFP4 in place of an affine map.
    mx: bool,
}

impl Format {
    /// The format of a module by `quantization`, which has an entry for modules of their own.
    fn read(config: &Config, module: &str) -> Result<Self, String> {
        let fault = |error: crate::Error| error.problem().to_string();
        let all = config.all.object("quantization").map_err(fault)?;
        let all = all.ok_or("is quantized, but config.json has no \"quantization\"")?;
        let own = if all.get(module).is_some_and(serde_json::Value::is_object) {
            all.object(module).map_err(fault)?
        } else {
            None
        };
        let size = |key: &str, own: Option<&Object>| -> Result<usize, String> {
            let stated = own.map(|own| own.size(&[key])).transpose().map_err(fault)?.flatten();
            match stated {
                Some(size) => Ok(size),
                None => all.required_size(&[key]).map_err(fault),
            }
        };
        let mode = match own.as_ref().map(|own| own.text(&["mode"])).transpose().map_err(fault)? {
            Some(Some(mode)) => Some(mode),
            _ => all.text(&["mode"]).map_err(fault)?,
        };
        let format = Self {
            bits: size("bits", own.as_ref())?,
            group: size("group_size", own.as_ref())?,
            mx: match mode {
                None | Some("affine") => false,
                Some("mxfp4") => true,
                Some(other) => return Err(format!("has mode {other:?}, expected affine or mxfp4")),
            },
        };
        let valid = matches!(format.bits, 2 | 3 | 4 | 5 | 6 | 8)
            && format.group > 0
            && format.group.is_multiple_of(BLOCK)
            && (!format.mx || (format.bits, format.group) == (4, BLOCK));
        if valid {
            return Ok(format);
        }
        let Self { bits, group, .. } = format;
        Err(format!(
            "has {bits} bits in groups of {group}, expected 2, 3, 4, 5, 6 or 8 bits in groups of a \
             multiple of {BLOCK}, of {BLOCK} for mxfp4"
        ))
    }
}

/// A quantized tensor in a type of checkpoints.
#[derive(Debug)]
pub(super) struct Loaded {
    /// Outermost dimension first.
    pub(super) shape: Vec<usize>,
    pub(super) dtype: DType,
    pub(super) bytes: Bytes,
}

/// Loads a module's weight if it is quantized: as blocks if `blocks` allows it, else as floats.
/// The error names what is wrong.
pub(super) fn loaded(
    config: &Config,
    sources: &HashMap<String, Source>,
    weight: &Source,
    blocks: bool,
) -> Result<Option<Loaded>, String> {
    let Some(module) = weight.name.strip_suffix(".weight") else { return Ok(None) };
    let (Stored::U32, Some(scales)) = (weight.stored, sources.get(&format!("{module}.scales")))
    else {
        return Ok(None);
    };
    let format = Format::read(config, module)?;
    let shape = logical_shape(weight, scales, format)?;
    if format.mx {
        if scales.stored != Stored::U8 {
            return Err(format!("has scales of type {:?}, expected U8", scales.stored));
        }
        let (dtype, bytes) = mxfp4::blocks(&weight.bytes, &scales.bytes);
        if blocks || dtype.block_len() == 1 {
            return Ok(Some(Loaded { shape, dtype, bytes }));
        }
        let (dtype, bytes) = mxfp4::floats(&weight.bytes, &scales.bytes);
        return Ok(Some(Loaded { shape, dtype, bytes }));
    }
    let biases = sources.get(&format!("{module}.biases")).ok_or("lacks its biases")?;
    if biases.shape != scales.shape {
        return Err(format!("has biases {:?} and scales {:?}", biases.shape, scales.shape));
    }
    let affine = Affine {
        codes: &weight.bytes,
        format,
        row: shape.last().copied().unwrap_or(0),
        scales: numbers(scales)?,
        biases: numbers(biases)?,
    };
    let exact = blocks && format.bits <= 5 && affine.is_exact();
    let (dtype, bytes) = if exact { affine.blocks() } else { affine.expanded() };
    Ok(Some(Loaded { shape, dtype, bytes }))
}

/// The shape of the weights, checked against the codes and the scales.
fn logical_shape(weight: &Source, scales: &Source, format: Format) -> Result<Vec<usize>, String> {
    let fault = || {
        format!(
            "has codes {:?} and scales {:?}, which do not fit {} bits in groups of {}",
            weight.shape, scales.shape, format.bits, format.group
        )
    };
    let (Some((words, rows)), Some((groups, of_scales))) =
        (weight.shape.split_last(), scales.shape.split_last())
    else {
        return Err(fault());
    };
    let columns = groups.checked_mul(format.group).ok_or_else(fault)?;
    let bits = columns.checked_mul(format.bits).ok_or_else(fault)?;
    if rows != of_scales || columns == 0 || words.checked_mul(32) != Some(bits) {
        return Err(fault());
    }
    let mut shape = rows.to_vec();
    shape.push(columns);
    Ok(shape)
}

fn numbers(source: &Source) -> Result<Vec<f32>, String> {
    let dtype = source.stored.dtype().ok_or_else(|| {
        format!("has scales of type {:?}, expected F32, F16 or BF16", source.stored)
    })?;
    let mut values = vec![0.0; source.bytes.len() / dtype.block_bytes()];
    pelton_quant::decode(dtype, &source.bytes, &mut values).map_err(|error| error.to_string())?;
    Ok(values)
}

struct Affine<'a> {
    codes: &'a [u8],
    format: Format,
    /// Weights per row.
    row: usize,
    scales: Vec<f32>,
    biases: Vec<f32>,
}

impl Affine<'_> {
    /// Whether f16 has all scales and biases.
    fn is_exact(&self) -> bool {
        let mut bytes = Vec::new();
        [&self.scales, &self.biases].into_iter().all(|values| {
            bytes.clear();
            let mut back = vec![0.0; values.len()];
            pelton_quant::encode(DType::F16, values, &mut bytes).is_ok()
                && pelton_quant::decode(DType::F16, &bytes, &mut back).is_ok()
                && back == **values
        })
    }

    /// Calls `each` with the codes of every group and its number.
    fn groups(&self, mut each: impl FnMut(usize, &[u8])) {
        let Format { bits, group, .. } = self.format;
        let row_bytes = self.row / 8 * bits;
        let mut codes = vec![0u8; group];
        let mut number = 0;
        for row in self.codes.chunks_exact(row_bytes) {
            // A group is a whole number of bytes, as its length is a multiple of 8.
            for bytes in row.chunks_exact(group / 8 * bits) {
                for (index, code) in codes.iter_mut().enumerate() {
                    let at = index * bits;
                    let low = u16::from(bytes[at / 8]);
                    let high = u16::from(bytes.get(at / 8 + 1).copied().unwrap_or(0));
                    *code = ((low | high << 8) >> (at % 8)) as u8 & (0xFF >> (8 - bits));
                }
                each(number, &codes);
                number += 1;
            }
        }
    }

    /// Blocks of Q4_1, or of Q5_1 for 5 bits: scale and minimum in f16, the fifth bits, and number
    /// `j` in the low and `j + 16` in the high half of byte `j`.
    fn blocks(&self) -> (DType, Bytes) {
        let five = self.format.bits == 5;
        let dtype = if five { DType::Q5_1 } else { DType::Q4_1 };
        let weights = self.scales.len() * self.format.group;
        let mut out = Vec::with_capacity(weights / BLOCK * dtype.block_bytes());
        self.groups(|number, codes| {
            for codes in codes.chunks_exact(BLOCK) {
                let head = [self.scales[number], self.biases[number]];
                // f16 takes every number.
                let _ = pelton_quant::encode(DType::F16, &head, &mut out);
                if five {
                    let bit = |(j, code): (usize, &u8)| u32::from(code >> 4) << j;
                    let bits = codes.iter().enumerate().map(bit).fold(0, |bits, bit| bits | bit);
                    out.extend(bits.to_le_bytes());
                }
                let (low, high) = codes.split_at(BLOCK / 2);
                out.extend(low.iter().zip(high).map(|(low, high)| low & 15 | (high & 15) << 4));
            }
        });
        (dtype, out.into())
    }

    /// The weights as F16, or as F32 if one is beyond the range of F16.
    fn expanded(&self) -> (DType, Bytes) {
        const LARGEST: f32 = 65504.0;
        let levels = ((1 << self.format.bits) - 1) as f32;
        let fits = self.scales.iter().zip(&self.biases).all(|(scale, bias)| {
            [*bias, scale * levels + bias].iter().all(|value| value.abs() <= LARGEST)
        });
        let dtype = if fits { DType::F16 } else { DType::F32 };
        let weights = self.scales.len() * self.format.group;
        let mut out = Vec::with_capacity(weights * dtype.block_bytes());
        let mut values = Vec::new();
        self.groups(|number, codes| {
            let (scale, bias) = (self.scales[number], self.biases[number]);
            values.clear();
            values.extend(codes.iter().map(|code| scale * f32::from(*code) + bias));
            // Types of floats take every number.
            let _ = pelton_quant::encode(dtype, &values, &mut out);
        });
        (dtype, out.into())
    }
}
