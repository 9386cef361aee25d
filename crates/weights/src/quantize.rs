//! Quantization of a checkpoint's matrices when it is loaded.

use std::thread;

use bytes::Bytes;
use pelton_quant::{DType, decode, encode};

use crate::{Checkpoint, Error, Problem, Tensor};

/// A mixture of types for a model's matrices, as llama.cpp's quantizer names and mixes them
/// (`src/llama-quant.cpp` in the llama_cpp_python 0.3.36 source package).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "the field writes these names so")]
pub enum Quantize {
    /// All matrices in Q8_0.
    Q8_0,
    /// All matrices in Q4_0, but the output layer in Q6_K.
    Q4_0,
    /// Q4_K, with Q6_K for the output layer and for half of the values and of the last matrices of
    /// feed-forward networks.
    Q4_K_M,
}

impl Quantize {
    /// The type of most matrices.
    fn base(self) -> DType {
        match self {
            Self::Q8_0 => DType::Q8_0,
            Self::Q4_0 => DType::Q4_0,
            Self::Q4_K_M => DType::Q4_K,
        }
    }

    /// The mixture with this name, such as `q8_0`, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "q8_0" => Some(Self::Q8_0),
            "q4_0" => Some(Self::Q4_0),
            "q4_k_m" => Some(Self::Q4_K_M),
            _ => None,
        }
    }
}

/// Bytes of a matrix that are encoded between two reports of progress.
const PART_BYTES: usize = 32 << 20;

/// The properties of the model that the choice of formats depends on, in addition to the tensor.
struct Model {
    tied: bool,
    falcon: bool,
    experts: u32,
    layers: usize,
}

impl Checkpoint {
    /// Quantizes the matrices of F32, F16 and BF16 into memory; all other tensors stay as they
    /// are. Norms, biases, routers, positions and convolutions are never quantized.
    ///
    /// Rows whose length is no multiple of a type's block get a type with smaller blocks, as in
    /// llama.cpp: Q5_0 for Q4_K, Q8_0 for Q6_K, and F16 where 32 does not divide them.
    ///
    /// `progress` is called now and then with the bytes of the file's matrices that are quantized, and with
    /// those that will be.
    ///
    /// # Errors
    /// If a type of the mixture has no encoder, or if a tensor has values that its type cannot
    /// represent, such as NaN.
    pub fn quantized(
        self,
        to: Quantize,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<Self, Error> {
        let architecture = self.metadata().string("general.architecture")?.to_owned();
        let count = |key: &str| self.metadata().opt_u32(&format!("{architecture}.{key}"));
        let model = Model {
            tied: self.tensor("output.weight").is_none(),
            falcon: architecture == "falcon",
            experts: count("expert_count")?.unwrap_or(0),
            layers: count("block_count")?.unwrap_or(0) as usize,
        };
        let wanted =
            |tensor: &Tensor<'_>| model.dtype(to, tensor).filter(|&dtype| dtype != tensor.dtype);
        let changed = self.tensors().filter(|tensor| wanted(tensor).is_some());
        let total = changed.map(|tensor| tensor.bytes.len() as u64).sum();
        let mut done = 0;
        self.with_tensors(|tensor| {
            let Some(dtype) = wanted(tensor) else { return Ok(None) };
            let bytes = encoded(tensor, dtype, |bytes| {
                done += bytes;
                progress(done, total);
            })?;
            Ok(Some((dtype, bytes)))
        })
    }
}

impl Model {
    /// The type of a tensor in a mixture, or `None` if it is not quantized.
    fn dtype(&self, to: Quantize, tensor: &Tensor<'_>) -> Option<DType> {
        if !matches!(tensor.dtype, DType::F32 | DType::F16 | DType::BF16) || is_exempt(tensor) {
            return None;
        }
        let name = tensor.name;
        let row = tensor.row_len();
        let is_output = name == "output.weight" || (self.tied && name == "token_embd.weight");
        let wanted = if is_output && to != Quantize::Q8_0 {
            let large_blocks = row.is_multiple_of(DType::Q6_K.block_len()) && !self.falcon;
            if large_blocks { DType::Q6_K } else { DType::Q8_0 }
        } else if to == Quantize::Q4_K_M {
            self.mixed(name)
        } else {
            to.base()
        };
        Some(fitting(wanted, row))
    }

    /// The type of a tensor in `Q4_K_M`.
    fn mixed(&self, name: &str) -> DType {
        let is = |part: &str| name.contains(part);
        let eight_experts = self.experts == 8;
        let values = is("attn_v.weight") || is("attn_qkv.weight") || is("attn_kv_b.weight");
        if eight_experts && (is("attn_v.weight") || is("attn_k.weight")) {
            return DType::Q8_0;
        }
        if eight_experts && is("attn_output.weight") {
            return DType::Q5_K;
        }
        if (values || is("ffn_down")) && more(layer_of(name), self.layers) {
            return DType::Q6_K;
        }
        // The 70B models of Llama 2 and 3, whose eight query heads share a value head.
        if is("attn_v.weight") && self.layers == 80 {
            return DType::Q5_K;
        }
        DType::Q4_K
    }
}

/// Whether a layer is one of those with more bits: the first and the last eighth, and every third
/// of the others.
fn more(layer: usize, layers: usize) -> bool {
    let eighth = layers / 8;
    layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2
}

fn layer_of(name: &str) -> usize {
    let number = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
    number.and_then(|(number, _)| number.parse().ok()).unwrap_or(0)
}

/// The type, or one with smaller blocks for rows that it does not divide.
fn fitting(wanted: DType, row: usize) -> DType {
    let smaller = match wanted {
        _ if row.is_multiple_of(wanted.block_len()) => return wanted,
        DType::Q4_K => DType::Q5_0,
        DType::Q5_K => DType::Q5_1,
        DType::Q6_K => DType::Q8_0,
        _ => DType::F16,
    };
    if row.is_multiple_of(smaller.block_len()) { smaller } else { DType::F16 }
}

/// Whether a tensor keeps its type in every mixture.
fn is_exempt(tensor: &Tensor<'_>) -> bool {
    const PARTS: [&str; 9] = [
        "_norm.weight",
        "ffn_gate_inp",
        "position_embd",
        "token_types",
        "ssm_conv1d",
        "altup",
        "laurel",
        "per_layer_model_proj",
        "rope_",
    ];
    let matrix = tensor.shape.len() > 1 && tensor.rows() > 1 && tensor.name.ends_with(".weight");
    !matrix || PARTS.iter().any(|part| tensor.name.contains(part))
}

/// The tensor in another type, encoded by all cores; `progress` gets the bytes of each part that is done.
fn encoded(
    tensor: &Tensor<'_>,
    dtype: DType,
    mut progress: impl FnMut(u64),
) -> Result<Bytes, Problem> {
    let row = tensor.row_len();
    let of_row = (row * tensor.dtype.block_bytes(), row / dtype.block_len() * dtype.block_bytes());
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let part = (PART_BYTES / of_row.0).clamp(1, tensor.rows());
    let rows = part.div_ceil(threads).max(1);
    let mut out = vec![0; tensor.rows() * of_row.1];
    let encode_chunk = |from: &[u8], to: &mut [u8]| -> Result<(), pelton_quant::Error> {
        let mut values = vec![0.0; row];
        let mut bytes = Vec::with_capacity(of_row.1);
        for (from, to) in from.chunks_exact(of_row.0).zip(to.chunks_exact_mut(of_row.1)) {
            decode(tensor.dtype, from, &mut values)?;
            bytes.clear();
            encode(dtype, &values, &mut bytes)?;
            to.copy_from_slice(&bytes);
        }
        Ok(())
    };
    let encode_chunk = &encode_chunk;
    let encode_part = |from: &[u8], to: &mut [u8]| {
        let chunks = from.chunks(rows * of_row.0).zip(to.chunks_mut(rows * of_row.1));
        thread::scope(|scope| {
            let workers: Vec<_> =
                chunks.map(|(from, to)| scope.spawn(move || encode_chunk(from, to))).collect();
            workers.into_iter().try_for_each(|worker| match worker.join() {
                Ok(result) => result.map_err(|error| error.to_string()),
                Err(_) => Err("a thread panicked".to_owned()),
            })
        })
    };
    let parts = tensor.bytes.chunks(part * of_row.0).zip(out.chunks_mut(part * of_row.1));
    for (from, to) in parts {
        encode_part(from, to).map_err(|fault| Problem::Quantize {
            tensor: tensor.name.to_owned(),
            dtype,
            fault,
        })?;
        progress(from.len() as u64);
    }
    Ok(out.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The layers with more bits of a model of 32 layers, by llama.cpp's log of Llama 3 8B.
    #[test]
    fn layers_with_more_bits() {
        let found: Vec<_> = (0..32).filter(|layer| more(*layer, 32)).collect();
        assert_eq!(found, [0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31]);
    }

    #[test]
    fn rows_that_blocks_do_not_divide() {
        assert_eq!(fitting(DType::Q4_K, 512), DType::Q4_K);
        assert_eq!(fitting(DType::Q4_K, 288), DType::Q5_0);
        assert_eq!(fitting(DType::Q6_K, 288), DType::Q8_0);
        assert_eq!(fitting(DType::Q6_K, 40), DType::F16);
        assert_eq!(fitting(DType::Q8_0, 40), DType::F16);
    }
}
