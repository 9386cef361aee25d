//! Tensors: GGUF names, order of rows, encoding.

use anyhow::{Context, Result, bail, ensure};
use pelton_quant::{DType, decode, encode};
use safetensors::Dtype;
use safetensors::tensor::TensorView;

use crate::config::{Config, Scaling};

/// Description of a tensor to be written.
#[derive(Debug)]
pub(crate) struct Planned {
    /// Its name in the Hugging Face files.
    pub(crate) source: String,
    pub(crate) name: String,
    pub(crate) dtype: DType,
    /// Innermost dimension first.
    pub(crate) shape: Vec<usize>,
    /// Number of heads whose rows are interleaved, if any.
    pub(crate) interleave: Option<usize>,
}

/// The description of the tensor `source` in GGUF, or `None` if it is omitted.
pub(crate) fn plan(
    source: &str,
    view: &TensorView<'_>,
    config: &Config,
    dtype: DType,
) -> Result<Option<Planned>> {
    if source == "lm_head.weight" && config.tied {
        return Ok(None);
    }
    // Frequencies follow from the configuration; old versions of transformers store them, too.
    if source.ends_with(".rotary_emb.inv_freq") {
        return Ok(None);
    }
    let name = gguf_name(source).with_context(|| format!("tensor {source} is not known"))?;
    let shape: Vec<_> = view.shape().iter().rev().copied().collect();
    let vector = shape.len() < 2;
    let dtype = match dtype {
        // As in llama.cpp's converter, vectors keep their type and rows that are not a whole
        // number of blocks become F16.
        _ if vector => DType::F32,
        quantized if shape[0].is_multiple_of(quantized.block_len()) => quantized,
        _ => DType::F16,
    };
    let interleave = match () {
        () if !config.model.interleaves_rope() => None,
        () if source.contains(".q_proj.") => Some(config.heads),
        () if source.contains(".k_proj.") => Some(config.kv_heads),
        () => None,
    };
    Ok(Some(Planned { source: source.to_owned(), name, dtype, shape, interleave }))
}

/// GGUF name of a Hugging Face tensor.
fn gguf_name(source: &str) -> Option<String> {
    match source {
        "model.embed_tokens.weight" => return Some("token_embd.weight".to_owned()),
        "model.norm.weight" => return Some("output_norm.weight".to_owned()),
        "lm_head.weight" => return Some("output.weight".to_owned()),
        _ => {}
    }
    let (layer, rest) = source.strip_prefix("model.layers.")?.split_once('.')?;
    let layer: usize = layer.parse().ok()?;
    let (module, kind) = rest.rsplit_once('.')?;
    let name = match (module, kind) {
        ("self_attn.q_proj", _) => "attn_q",
        ("self_attn.k_proj", _) => "attn_k",
        ("self_attn.v_proj", _) => "attn_v",
        ("self_attn.o_proj", _) => "attn_output",
        ("self_attn.q_norm", "weight") => "attn_q_norm",
        ("self_attn.k_norm", "weight") => "attn_k_norm",
        ("mlp.gate_proj", _) => "ffn_gate",
        ("mlp.up_proj", _) => "ffn_up",
        ("mlp.down_proj", _) => "ffn_down",
        ("input_layernorm", "weight") => "attn_norm",
        ("post_attention_layernorm", "weight") => "ffn_norm",
        _ => return None,
    };
    matches!(kind, "weight" | "bias").then(|| format!("blk.{layer}.{name}.{kind}"))
}

/// Sort key of a tensor by its use in a forward pass: the embedding, the blocks, the others.
pub(crate) fn place(name: &str) -> usize {
    let block = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
    match block.and_then(|(number, _)| number.parse::<usize>().ok()) {
        Some(number) => number.saturating_add(1),
        None if name == "token_embd.weight" => 0,
        None => usize::MAX,
    }
}

/// Encodes a planned tensor.
pub(crate) fn encoded(planned: &Planned, view: &TensorView<'_>) -> Result<Vec<u8>> {
    let source_type = match view.dtype() {
        Dtype::F32 => DType::F32,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        other => bail!("tensor {} is of type {other:?}, expected a float", planned.source),
    };
    let mut numbers = vec![0.0; planned.shape.iter().product()];
    decode(source_type, view.data(), &mut numbers).context(planned.source.clone())?;
    if let Some(heads) = planned.interleave {
        let row_len = if planned.shape.len() < 2 { 1 } else { planned.shape[0] };
        numbers = interleaved(&numbers, row_len, heads).context(planned.source.clone())?;
    }
    let mut bytes = Vec::new();
    encode(planned.dtype, &numbers, &mut bytes).context(planned.source.clone())?;
    Ok(bytes)
}

/// Interleaves the two halves of each head's rows: row `i` of the first half moves to `2i`, row
/// `i` of the second half to `2i + 1`.
fn interleaved(values: &[f32], row_len: usize, heads: usize) -> Result<Vec<f32>> {
    let rows = values.len() / row_len;
    ensure!(
        rows.is_multiple_of(2 * heads),
        "{rows} rows are not a whole number of pairs in {heads} heads"
    );
    let half = rows / heads / 2;
    let rows: Vec<_> = values.chunks_exact(row_len).collect();
    Ok(rows
        .chunks_exact(2 * half)
        .flat_map(|head| {
            let (first, second) = head.split_at(half);
            first.iter().zip(second).flat_map(|(first, second)| [*first, *second])
        })
        .flatten()
        .copied()
        .collect())
}

/// `rope_freqs.weight`: Llama 3's divisors of the pairs' frequencies `[head_dim / 2]`.
///
/// The formula is `_compute_llama3_parameters` in transformers' `modeling_rope_utils.py`.
pub(crate) fn rope_divisors(config: &Config) -> Option<Vec<f32>> {
    let Scaling::Llama3 { factor, low, high, original_context } = config.rope.scaling else {
        return None;
    };
    let pairs = config.head_dim / 2;
    Some(
        (0..pairs)
            .map(|pair| {
                let frequency = config.rope.theta.powf(-(pair as f64) / pairs as f64);
                // Number of rotations of the pair within the context of pre-training.
                let turns = original_context * frequency / std::f64::consts::TAU;
                let divisor = if turns > high {
                    1.0
                } else if turns < low {
                    factor
                } else {
                    let smooth = (turns - low) / (high - low);
                    1.0 / ((1.0 - smooth) / factor + smooth)
                };
                divisor as f32
            })
            .collect(),
    )
}
