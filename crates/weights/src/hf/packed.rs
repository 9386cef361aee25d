//! Linear layers of AWQ, GPTQ and compressed-tensors: integer codes with a zero point and a scale
//! for each group of inputs. A weight is `scale · (code − zero)`.
//!
//! A module has words `qweight` with the codes, words `qzeros` and floats `scales`
//! `[groups, outputs]` (github.com/casper-hansen/AutoAWQ, github.com/AutoGPTQ/AutoGPTQ):
//!
//! - AWQ: `qweight` `[inputs, outputs / 8]`, `qzeros` `[groups, outputs / 8]`, whose nibbles are
//!   the outputs 0, 2, 4, 6, 1, 3, 5, 7 of a word;
//! - GPTQ: `qweight` `[inputs · bits / 32, outputs]`, `qzeros` `[groups, outputs · bits / 32]`,
//!   codes in order, zeros minus 1 unless the format is `gptq_v2`. `g_idx` `[inputs]` has the group
//!   of each input; other groups than runs of inputs ("act-order") are refused.
//!
//! A module of compressed-tensors in its format `pack-quantized`
//! (github.com/vllm-project/compressed-tensors) has words `weight_packed`
//! `[outputs, inputs · bits / 32]`, `weight_scale` `[outputs, groups]` and perhaps
//! `weight_zero_point` `[outputs · bits / 32, groups]`. Codes and zeros have signs, and are stored
//! plus half of their range.
//!
//! Differences `code − zero` of up to 5 bits become Q4_0 or Q5_0 blocks, of 8 bits Q8_0 blocks,
//! without loss if the scales are exact in f16. All others are expanded to F16, or to F32 where F16
//! lacks the range.

use std::collections::HashMap;
use std::thread;

use bytes::Bytes;
use pelton_quant::DType;

use super::config::Config;
use super::json::Object;
use super::mlx::Loaded;
use super::stored::{Source, Stored};

/// The ends of the names of a module's codes.
const CODES: [&str; 2] = [".qweight", ".weight_packed"];

/// Ends of the names of a module's further tensors.
const ENDS: [&str; 7] = [
    ".qzeros",
    ".scales",
    ".g_idx",
    ".weight_scale",
    ".weight_shape",
    ".weight_zero_point",
    ".weight_g_idx",
];

/// The module of the codes of this name.
pub(super) fn module_of(name: &str) -> Option<&str> {
    CODES.iter().find_map(|end| name.strip_suffix(end))
}

/// Whether a tensor is read with the codes of its module.
pub(super) fn is_part(sources: &HashMap<String, Source>, name: &str) -> bool {
    let module = ENDS.iter().find_map(|end| name.strip_suffix(end));
    let has = |module| CODES.iter().any(|end| sources.contains_key(&format!("{module}{end}")));
    module.is_some_and(has)
}

/// Weights in a block of Q4_0, Q5_0 and Q8_0.
const BLOCK: usize = 32;

/// The outputs of the nibbles of AWQ's words, the lowest nibble first.
const AWQ_ORDER: [usize; 8] = [0, 2, 4, 6, 1, 3, 5, 7];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Awq,
    /// GPTQ, with the number that is added to stored zeros.
    Gptq {
        add: i32,
    },
    /// The format `pack-quantized` of compressed-tensors.
    Packed,
}

/// How a directory's modules are quantized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Format {
    method: Method,
    bits: usize,
    /// Inputs of a group; `None` for all.
    group: Option<usize>,
    /// Whether all zeros are the middle code, by the configuration.
    symmetric: bool,
}

impl Format {
    fn read(config: &Config) -> Result<Self, String> {
        let fault = |error: crate::Error| error.problem().to_string();
        let own = config.all.object("quantization_config").map_err(fault)?;
        let own = own.ok_or("is quantized, but config.json has no \"quantization_config\"")?;
        let text = |key: &str| own.text(&[key]).map_err(fault);
        if text("quant_method")? == Some("compressed-tensors") {
            return Self::compressed(&own);
        }
        let method = match text("quant_method")? {
            Some("awq") => match text("version")? {
                None | Some("gemm" | "GEMM") => {
                    if own.flag(&["zero_point"]).map_err(fault)? == Some(false) {
                        return Err("has zero_point false, expected true for AWQ".to_owned());
                    }
                    Method::Awq
                }
                Some(other) => return Err(format!("is of AWQ version {other:?}, expected gemm")),
            },
            Some("gptq") => match text("checkpoint_format")? {
                None | Some("gptq") => Method::Gptq { add: 1 },
                Some("gptq_v2") => Method::Gptq { add: 0 },
                Some(other) => {
                    return Err(format!("is of GPTQ format {other:?}, expected gptq or gptq_v2"));
                }
            },
            other => {
                let found = other.unwrap_or("none");
                let expected = "expected awq, gptq or compressed-tensors";
                return Err(format!("has quant_method {found:?}, {expected}"));
            }
        };
        let bits = own.required_size(&["bits", "w_bit"]).map_err(fault)?;
        let valid = match method {
            Method::Awq => bits == 4,
            Method::Gptq { .. } | Method::Packed => matches!(bits, 2 | 4 | 8),
        };
        if !valid {
            return Err(format!("has {bits} bits, expected 4 for AWQ, and 2, 4 or 8 for GPTQ"));
        }
        let name = ["group_size", "q_group_size"].into_iter().find(|name| own.contains(name));
        let whole = name.and_then(|name| own.get(name)).and_then(serde_json::Value::as_i64);
        let group = match (whole, name) {
            (Some(-1), _) => None,
            (_, Some(name)) => Some(own.required_size(&[name]).map_err(fault)?),
            (_, None) => return Err("lacks group_size in quantization_config".to_owned()),
        };
        match group {
            Some(size) if size == 0 || !size.is_multiple_of(BLOCK) => {
                Err(format!("has groups of {size}, expected -1 or a multiple of {BLOCK}"))
            }
            _ => {
                let symmetric = own.flag(&["sym"]).map_err(fault)?.unwrap_or(false);
                Ok(Self { method, bits, group, symmetric })
            }
        }
    }

    /// The format of a configuration of compressed-tensors, whose groups of modules have one.
    fn compressed(own: &Object) -> Result<Self, String> {
        let fault = |error: crate::Error| error.problem().to_string();
        let format = own.text(&["format"]).map_err(fault)?.unwrap_or("none");
        if format != "pack-quantized" {
            return Err(format!(
                "is of compressed-tensors format {format:?}, expected pack-quantized"
            ));
        }
        let groups = own.get("config_groups").and_then(serde_json::Value::as_object);
        let mut formats = groups.into_iter().flat_map(|groups| groups.values()).map(Self::weights);
        let first = formats.next().ok_or("has no config_groups in quantization_config")??;
        match formats.find(|other| !other.as_ref().is_ok_and(|other| *other == first)) {
            None => Ok(first),
            Some(other) => {
                other?;
                Err("has config_groups of several formats, expected one".to_owned())
            }
        }
    }

    /// The format of the weights of a group of modules.
    fn weights(group: &serde_json::Value) -> Result<Self, String> {
        let weights = &group["weights"];
        let (kind, bits) = (weights["type"].as_str(), weights["num_bits"].as_u64());
        let bits = match (kind, bits) {
            (Some("int"), Some(bits @ (4 | 8))) => bits as usize,
            (kind, bits) => {
                let (kind, bits) = (kind.unwrap_or("none"), bits.unwrap_or(0));
                return Err(format!(
                    "has weights of {bits} bits of type {kind}, expected int of 4 or 8"
                ));
            }
        };
        let group = match (weights["strategy"].as_str(), weights["group_size"].as_u64()) {
            (Some("channel"), _) => None,
            (Some("group"), Some(size)) if size > 0 && size.is_multiple_of(BLOCK as u64) => {
                Some(usize::try_from(size).map_err(|_| "has groups beyond memory")?)
            }
            (strategy, size) => {
                return Err(format!(
                    "has weights by {} of {}, expected channel, or group of a multiple of {BLOCK}",
                    strategy.unwrap_or("none"),
                    size.unwrap_or(0)
                ));
            }
        };
        let symmetric = weights["symmetric"].as_bool().unwrap_or(true);
        Ok(Self { method: Method::Packed, bits, group, symmetric })
    }
}

/// Loads a module by its codes: as blocks if `blocks` allows it, else as floats. The error names
/// what is wrong.
pub(super) fn loaded(
    config: &Config,
    sources: &HashMap<String, Source>,
    codes: &Source,
    blocks: bool,
) -> Result<Option<Loaded>, String> {
    let Some(module) = module_of(&codes.name) else { return Ok(None) };
    let format = Format::read(config)?;
    let part = |end: &str| sources.get(&format!("{module}{end}"));
    let matrix = match format.method {
        Method::Packed => {
            let scales = part(".weight_scale").ok_or("lacks its weight_scale")?;
            let zeros = part(".weight_zero_point");
            if !format.symmetric && zeros.is_none() {
                return Err("lacks its weight_zero_point".to_owned());
            }
            Matrix::compressed(format, codes, zeros, scales)?
        }
        Method::Awq | Method::Gptq { .. } => {
            let zeros = part(".qzeros").ok_or("lacks its qzeros")?;
            Matrix::new(format, codes, zeros, part(".scales").ok_or("lacks its scales")?)?
        }
    };
    if let Some(order) = part(".g_idx").or_else(|| part(".weight_g_idx")) {
        matrix.check_order(order)?;
    } else if config_flag(config, "desc_act")? {
        return Err("is GPTQ with reordered inputs (desc_act), expected groups in order".into());
    }
    let (dtype, bytes) = matrix.converted(blocks);
    Ok(Some(Loaded { shape: vec![matrix.outputs, matrix.inputs], dtype, bytes }))
}

fn config_flag(config: &Config, key: &str) -> Result<bool, String> {
    let fault = |error: crate::Error| error.problem().to_string();
    let Some(own) = config.all.object("quantization_config").map_err(fault)? else {
        return Ok(false);
    };
    Ok(own.flag(&[key]).map_err(fault)?.unwrap_or(false))
}

/// The codes of a linear layer.
struct Matrix<'a> {
    format: Format,
    inputs: usize,
    outputs: usize,
    group: usize,
    codes: &'a [[u8; 4]],
    /// Empty if all are the middle code.
    zeros: &'a [[u8; 4]],
    /// `[groups, outputs]`.
    scales: Vec<f32>,
}

impl<'a> Matrix<'a> {
    fn new(
        format: Format,
        codes: &'a Source,
        zeros: &'a Source,
        scales: &Source,
    ) -> Result<Self, String> {
        let each = 32 / format.bits;
        let fault = || {
            format!(
                "has codes {:?}, zeros {:?} and scales {:?}, which do not fit {} bits in groups of {}",
                codes.shape,
                zeros.shape,
                scales.shape,
                format.bits,
                format.group.map_or("all inputs".to_owned(), |group| group.to_string()),
            )
        };
        let is_words = |source: &Source| matches!(source.stored, Stored::I32 | Stored::U32);
        if !is_words(codes) || !is_words(zeros) {
            let (codes, zeros) = (codes.stored, zeros.stored);
            return Err(format!("has codes of {codes:?} and zeros of {zeros:?}, expected I32"));
        }
        let dims = |source: &Source| <[usize; 2]>::try_from(source.shape.as_slice());
        let (Ok([rows, columns]), Ok([groups, packed]), Ok([of_scales, outputs])) =
            (dims(codes), dims(zeros), dims(scales))
        else {
            return Err(fault());
        };
        let inputs = match format.method {
            Method::Awq => (columns.checked_mul(each) == Some(outputs)).then_some(rows),
            Method::Gptq { .. } | Method::Packed => {
                rows.checked_mul(each).filter(|_| columns == outputs)
            }
        };
        let inputs = inputs.filter(|inputs| *inputs > 0 && outputs > 0).ok_or_else(fault)?;
        let group = format.group.unwrap_or(inputs);
        if !inputs.is_multiple_of(BLOCK)
            || inputs.div_ceil(group) != groups
            || groups != of_scales
            || packed.checked_mul(each) != Some(outputs)
        {
            return Err(fault());
        }
        let dtype = scales.stored.dtype().ok_or_else(|| {
            format!("has scales of type {:?}, expected F16, BF16 or F32", scales.stored)
        })?;
        let mut values = vec![0.0; groups * outputs];
        pelton_quant::decode(dtype, &scales.bytes, &mut values)
            .map_err(|error| error.to_string())?;
        let (codes, zeros) = (codes.bytes.as_chunks().0, zeros.bytes.as_chunks().0);
        Ok(Self { format, inputs, outputs, group, codes, zeros, scales: values })
    }

    /// The codes of a module of compressed-tensors.
    fn compressed(
        format: Format,
        codes: &'a Source,
        zeros: Option<&'a Source>,
        scales: &Source,
    ) -> Result<Self, String> {
        let each = 32 / format.bits;
        let fault = || {
            format!(
                "has codes {:?}, zeros {:?} and scales {:?}, which do not fit {} bits in groups of {}",
                codes.shape,
                zeros.map(|zeros| &zeros.shape),
                scales.shape,
                format.bits,
                format.group.map_or("all inputs".to_owned(), |group| group.to_string()),
            )
        };
        let is_words = |source: &Source| matches!(source.stored, Stored::I32 | Stored::U32);
        if !is_words(codes) || zeros.is_some_and(|zeros| !is_words(zeros)) {
            return Err(format!(
                "has codes of {:?}, expected codes and zeros of I32",
                codes.stored
            ));
        }
        let (&[outputs, words], &[of_scales, groups]) = (&*codes.shape, &*scales.shape) else {
            return Err(fault());
        };
        let inputs = words.checked_mul(each).filter(|&inputs| inputs > 0).ok_or_else(fault)?;
        let group = format.group.unwrap_or(inputs);
        let of_zeros = zeros.is_none_or(|zeros| zeros.shape == [outputs / each, groups]);
        if !inputs.is_multiple_of(BLOCK)
            || inputs.div_ceil(group) != groups
            || outputs != of_scales
            || !of_zeros
            || (zeros.is_some() && !outputs.is_multiple_of(each))
        {
            return Err(fault());
        }
        let dtype = scales.stored.dtype().ok_or_else(|| {
            format!("has scales of type {:?}, expected F16, BF16 or F32", scales.stored)
        })?;
        let mut values = vec![0.0; outputs * groups];
        pelton_quant::decode(dtype, &scales.bytes, &mut values)
            .map_err(|error| error.to_string())?;
        let by_group =
            (0..groups).flat_map(|g| (0..outputs).map(move |output| output * groups + g));
        let scales = by_group.map(|at| values[at]).collect();
        let codes = codes.bytes.as_chunks().0;
        let zeros = zeros.map_or(&[][..], |zeros| zeros.bytes.as_chunks().0);
        Ok(Self { format, inputs, outputs, group, codes, zeros, scales })
    }

    /// Refuses inputs whose groups are not runs of inputs.
    fn check_order(&self, order: &Source) -> Result<(), String> {
        let words = order.bytes.as_chunks::<4>().0;
        if !matches!(order.stored, Stored::I32 | Stored::U32) || words.len() != self.inputs {
            return Err(format!("has g_idx {:?}, expected {} integers", order.shape, self.inputs));
        }
        let mut groups = (0..self.inputs).map(|input| (input / self.group) as u32);
        if words.iter().all(|word| groups.next() == Some(u32::from_le_bytes(*word))) {
            return Ok(());
        }
        Err("is GPTQ with reordered inputs (desc_act), expected groups in order".to_owned())
    }

    /// The field `index` of the words.
    fn field(&self, words: &[[u8; 4]], word: usize, index: usize) -> i32 {
        let bits = self.format.bits;
        let word = u32::from_le_bytes(words[word]);
        ((word >> (index * bits)) & ((1 << bits) - 1)) as i32
    }

    /// The word and the field of output `output` in a row of packed outputs.
    fn of_output(&self, output: usize) -> (usize, usize) {
        let each = 32 / self.format.bits;
        let place = output % each;
        let index = match self.format.method {
            Method::Awq => AWQ_ORDER.iter().position(|&at| at == place).unwrap_or(0),
            Method::Gptq { .. } | Method::Packed => place,
        };
        (output / each, index)
    }

    fn zero(&self, group: usize, output: usize) -> i32 {
        if self.zeros.is_empty() {
            return 1 << (self.format.bits - 1);
        }
        let (word, index) = self.of_output(output);
        if self.format.method == Method::Packed {
            let groups = self.inputs.div_ceil(self.group);
            return self.field(self.zeros, word * groups + group, index);
        }
        let row = self.outputs * self.format.bits / 32;
        let stored = self.field(self.zeros, group * row + word, index);
        match self.format.method {
            Method::Awq | Method::Packed => stored,
            // a zero of 0 is stored as the greatest code
            Method::Gptq { add } => (stored + add) & ((1 << self.format.bits) - 1),
        }
    }

    fn code(&self, input: usize, output: usize) -> i32 {
        let each = 32 / self.format.bits;
        match self.format.method {
            Method::Awq => {
                let (word, index) = self.of_output(output);
                self.field(self.codes, input * (self.outputs / each) + word, index)
            }
            Method::Gptq { .. } => {
                self.field(self.codes, input / each * self.outputs + output, input % each)
            }
            Method::Packed => {
                let row = self.inputs / each;
                self.field(self.codes, output * row + input / each, input % each)
            }
        }
    }

    /// The scale and the differences of the 32 inputs from `first` on of an output.
    fn block(&self, output: usize, first: usize) -> (f32, [i32; BLOCK]) {
        let group = first / self.group;
        let zero = self.zero(group, output);
        let differences = std::array::from_fn(|i| self.code(first + i, output) - zero);
        (self.scales[group * self.outputs + output], differences)
    }

    fn converted(&self, blocks: bool) -> (DType, Bytes) {
        let most = (1 << self.format.bits) - 1;
        let groups = self.scales.len() / self.outputs;
        let places = (0..groups).flat_map(|group| (0..self.outputs).map(move |at| (group, at)));
        let (least, greatest) = places.fold((0, 0), |(least, greatest), (group, output)| {
            let zero = self.zero(group, output);
            (least.min(-zero), greatest.max(most - zero))
        });
        let exact = || {
            let mut back = vec![0.0; self.scales.len()];
            let mut halves = Vec::with_capacity(2 * back.len());
            pelton_quant::encode(DType::F16, &self.scales, &mut halves).is_ok()
                && pelton_quant::decode(DType::F16, &halves, &mut back).is_ok()
                && back == self.scales
        };
        let fits = |bits: u32| least >= -(1 << (bits - 1)) && greatest < 1 << (bits - 1);
        // the same type for all experts of a layer, whatever their zeros are
        let types = match self.format {
            Format { bits: 2, .. } | Format { symmetric: true, .. } => {
                &[(4, DType::Q4_0), (5, DType::Q5_0), (8, DType::Q8_0)][..]
            }
            Format { bits: 4, .. } => &[(5, DType::Q5_0)],
            _ => &[(8, DType::Q8_0)],
        };
        match types.iter().find(|(bits, _)| blocks && fits(*bits)).filter(|_| exact()) {
            Some(&(_, dtype)) => (
                dtype,
                self.written(dtype, |out, scale, differences| {
                    write_block(dtype, out, scale, differences);
                }),
            ),
            None => self.expanded(),
        }
    }

    /// The weights as F16, or as F32 if one is beyond the range of F16.
    fn expanded(&self) -> (DType, Bytes) {
        const LARGEST: f32 = 65504.0;
        let most = (1 << self.format.bits) as f32;
        let fits = self.scales.iter().all(|scale| (scale * most).abs() <= LARGEST);
        let dtype = if fits { DType::F16 } else { DType::F32 };
        let bytes = self.written(dtype, |out, scale, differences| {
            let values = differences.map(|difference| scale * difference as f32);
            // Types of floats take every number.
            let _ = pelton_quant::encode(dtype, &values, out);
        });
        (dtype, bytes)
    }

    /// The bytes of all outputs, on all processors. `write` appends those of 32 weights.
    fn written(
        &self,
        dtype: DType,
        write: impl Fn(&mut Vec<u8>, f32, &[i32; BLOCK]) + Sync,
    ) -> Bytes {
        let of_block = BLOCK / dtype.block_len() * dtype.block_bytes();
        let of_row = self.inputs / BLOCK * of_block;
        let mut out = vec![0; self.outputs * of_row];
        let threads = thread::available_parallelism().map_or(1, usize::from);
        // eight outputs share a word of AWQ
        let rows = self.outputs.div_ceil(threads).next_multiple_of(8);
        let write_rows = |from: usize, rows: &mut [u8]| {
            let mut bytes = Vec::with_capacity(of_block);
            // the codes of neighbouring outputs lie side by side
            for (block, first) in (0..self.inputs).step_by(BLOCK).enumerate() {
                for (row, to) in rows.chunks_exact_mut(of_row).enumerate() {
                    let (scale, differences) = self.block(from + row, first);
                    bytes.clear();
                    write(&mut bytes, scale, &differences);
                    to[block * of_block..(block + 1) * of_block].copy_from_slice(&bytes);
                }
            }
        };
        let write_rows = &write_rows;
        thread::scope(|scope| {
            for (part, chunk) in out.chunks_mut(rows * of_row).enumerate() {
                scope.spawn(move || write_rows(part * rows, chunk));
            }
        });
        out.into()
    }
}

/// Appends a block of a scale in f16 and codes. Codes of Q4_0 are plus 8 and those of Q5_0 plus 16,
/// whose fifth bits come first. Weight `j` is in the low, `j + 16` in the high half of byte `j`.
/// Codes of Q8_0 are as they are.
fn write_block(dtype: DType, out: &mut Vec<u8>, scale: f32, differences: &[i32; BLOCK]) {
    // f16 takes every number.
    let _ = pelton_quant::encode(DType::F16, &[scale], out);
    if dtype == DType::Q8_0 {
        out.extend(differences.map(|difference| difference as i8 as u8));
        return;
    }
    let offset = if dtype == DType::Q5_0 { 16 } else { 8 };
    let codes = differences.map(|difference| (difference + offset) as u8);
    if dtype == DType::Q5_0 {
        let bit = |(j, code): (usize, &u8)| u32::from(code >> 4) << j;
        let bits = codes.iter().enumerate().map(bit).fold(0, |bits, bit| bits | bit);
        out.extend(bits.to_le_bytes());
    }
    let (low, high) = codes.split_at(BLOCK / 2);
    out.extend(low.iter().zip(high).map(|(low, high)| low & 15 | (high & 15) << 4));
}
