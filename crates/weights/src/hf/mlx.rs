//! Quantized tensors of MLX: affine groups of 2 to 8 bits, MXFP4, NVFP4 and MXFP8.
//!
//! A module's `weight` has the codes as a stream of bits in u32 (little-endian, lowest bits first)
//! `[…, rows, columns × bits / 32]`. `scales` and `biases` have one number a group `[…, rows,
//! columns / group]`, and a weight is `scale · code + bias` (mlx
//! `python/mlx/nn/layers/quantized.py`). The others have no biases and scales of one byte.
//!
//! Codes of up to 4 bits become Q4_1 blocks and of 5 bits Q5_1 blocks if the scales and biases are
//! exact in f16. All others are expanded, for now: to F16 where the range allows it, else to F32.
//! NVFP4 stays as blocks, and MXFP8 becomes BF16, which has all of its numbers.

use std::collections::HashMap;

use bytes::Bytes;
use pelton_quant::DType;

use super::config::Config;
use super::json::Object;
use super::stored::{Source, Stored};
use super::{float8, mxfp4, nvfp4};

/// Ends of the names of a quantized module's further tensors.
pub(super) const ENDS: [&str; 2] = [".scales", ".biases"];

/// Numbers in a block of Q4_1 and Q5_1.
const BLOCK: usize = 32;

/// How a module is quantized.
#[derive(Clone, Copy, Debug)]
struct Format {
    bits: usize,
    group: usize,
    mode: Mode,
}

/// The bits of a code and the length of a group; `None` for any.
type Sizes = Option<(usize, usize)>;

/// The meaning of codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// An affine map.
    Affine,
    /// E2M1 floats with a power of two.
    Mxfp4,
    /// E2M1 floats with an E4M3 scale.
    Nvfp4,
    /// E4M3 floats with a power of two.
    Mxfp8,
}

impl Mode {
    /// The modes by their names.
    const ALL: [(&str, Self, Sizes); 4] = [
        ("affine", Self::Affine, None),
        ("mxfp4", Self::Mxfp4, Some((4, BLOCK))),
        ("nvfp4", Self::Nvfp4, Some((4, 16))),
        ("mxfp8", Self::Mxfp8, Some((8, BLOCK))),
    ];
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
        let name = mode.unwrap_or("affine");
        let known = Mode::ALL.iter().find(|(known, ..)| *known == name);
        let Some(&(_, mode, sizes)) = known else {
            return Err(format!("has mode {name:?}, expected affine, mxfp4, nvfp4 or mxfp8"));
        };
        let format = Self {
            bits: size("bits", own.as_ref())?,
            group: size("group_size", own.as_ref())?,
            mode,
        };
        let Self { bits, group, .. } = format;
        match sizes {
            Some((of, length)) if (bits, group) != (of, length) => Err(format!(
                "has {bits} bits in groups of {group}, expected {of} bits in groups of {length}"
            )),
            None if !matches!(bits, 2 | 3 | 4 | 5 | 6 | 8)
                || group == 0
                || !group.is_multiple_of(BLOCK) =>
            {
                Err(format!(
                    "has {bits} bits in groups of {group}, expected 2, 3, 4, 5, 6 or 8 bits in \
                     groups of a multiple of {BLOCK}"
                ))
            }
            _ => Ok(format),
        }
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
    if format.mode != Mode::Affine {
        if scales.stored != Stored::U8 {
            return Err(format!("has scales of type {:?}, expected U8", scales.stored));
        }
        let (codes, scales) = (&weight.bytes, &scales.bytes);
        let row = shape.last().copied().unwrap_or(0);
        let (dtype, bytes) = match format.mode {
            Mode::Nvfp4 => nvfp4::loaded(codes, scales, blocks && row.is_multiple_of(64))?,
            Mode::Mxfp8 => (DType::BF16, float8::with_powers(codes, scales, format.group)),
            _ if blocks => mxfp4::blocks(codes, scales),
            _ => mxfp4::floats(codes, scales),
        };
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
