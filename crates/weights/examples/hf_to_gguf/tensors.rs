//! Tensors: their names in GGUF, the order of their rows, and their encoding.

use anyhow::{Context, Result, bail, ensure};
use pelton_quant::{DType, decode, encode};
use safetensors::Dtype;
use safetensors::tensor::TensorView;

use crate::config::{Config, Scaling};

/// A tensor to be written.
#[derive(Debug)]
pub(crate) struct Planned {
    /// Its name in the Hugging Face files.
    pub(crate) source: String,
    pub(crate) name: String,
    pub(crate) dtype: DType,
    /// Innermost dimension first.
    pub(crate) shape: Vec<usize>,
    /// The heads whose rows are to be interleaved, if any.
    pub(crate) interleave: Option<usize>,
}

/// The tensor that `source` becomes, or `None` if it is left out.
pub(crate) fn plan(
    source: &str,
    view: &TensorView<'_>,
    config: &Config,
    dtype: DType,
) -> Result<Option<Planned>> {
    if source == "lm_head.weight" && config.tied {
        return Ok(None);
    }
    // Frequencies follow from the configuration; files of old transformers have them too.
    if source.ends_with(".rotary_emb.inv_freq") {
        return Ok(None);
    }
    let name = gguf_name(source).with_context(|| format!("tensor {source} is not known"))?;
    let shape: Vec<_> = view.shape().iter().rev().copied().collect();
    let vector = shape.len() < 2;
    let dtype = match dtype {
        // As llama.cpp's converter: vectors stay as they are, rows that do not fill blocks
        // become F16.
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

/// The name in GGUF of a Hugging Face tensor.
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

/// Where in a forward pass the tensor of that name is read: the embedding, the blocks, the rest.
pub(crate) fn place(name: &str) -> usize {
    let block = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
    match block.and_then(|(number, _)| number.parse::<usize>().ok()) {
        Some(number) => number.saturating_add(1),
        None if name == "token_embd.weight" => 0,
        None => usize::MAX,
    }
}

/// The bytes of a planned tensor.
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

/// Moves the rows of each head from halves to pairs: row `i` of the first half to `2i`, row `i`
/// of the second to `2i + 1`.
fn interleaved(numbers: &[f32], row_len: usize, heads: usize) -> Result<Vec<f32>> {
    let rows = numbers.len() / row_len;
    ensure!(
        rows.is_multiple_of(2 * heads),
        "{rows} rows are not a whole number of pairs in {heads} heads"
    );
    let half = rows / heads / 2;
    let rows: Vec<_> = numbers.chunks_exact(row_len).collect();
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

/// `rope_freqs.weight`: what Llama 3 divides the frequency of each pair by.
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
                // How often the pair turns within the context of the first training.
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
