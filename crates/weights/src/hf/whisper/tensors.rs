//! Tensors of transformers' Whisper under OpenAI's names.

use std::collections::HashMap;

use bytes::Bytes;
use pelton_quant::DType;

use crate::Problem;
use crate::gguf::TensorEntry;
use crate::hf::stored::Source;
use crate::whisper::{ARCHITECTURE, Expected, Kind, Sizes, TOKEN_EMBEDDING, expected, sinusoids};

/// The output layer, which repeats the embedding of tokens in some files.
const OUTPUT: &str = "proj_out.weight";
/// The encoder's positions, which are a formula.
const POSITIONS: &str = "encoder.embed_positions.weight";

/// Parts of OpenAI's names, and transformers' in their place; the first that fits replaces the
/// part.
const PARTS: [(&str, &str); 17] = [
    (".blocks.", ".layers."),
    (".cross_attn_ln.", ".encoder_attn_layer_norm."),
    (".cross_attn.query.", ".encoder_attn.q_proj."),
    (".cross_attn.key.", ".encoder_attn.k_proj."),
    (".cross_attn.value.", ".encoder_attn.v_proj."),
    (".cross_attn.out.", ".encoder_attn.out_proj."),
    (".attn_ln.", ".self_attn_layer_norm."),
    (".attn.query.", ".self_attn.q_proj."),
    (".attn.key.", ".self_attn.k_proj."),
    (".attn.value.", ".self_attn.v_proj."),
    (".attn.out.", ".self_attn.out_proj."),
    (".mlp_ln.", ".final_layer_norm."),
    (".mlp.0.", ".fc1."),
    (".mlp.2.", ".fc2."),
    (".ln_post.", ".layer_norm."),
    ("decoder.ln.", "decoder.layer_norm."),
    (".token_embedding.", ".embed_tokens."),
];

/// The name of a tensor in transformers, without the prefix `model.`.
fn name_of(openai: &str) -> String {
    let name = openai.replace(".positional_embedding", ".embed_positions.weight");
    PARTS.iter().fold(name, |name, (from, to)| name.replace(from, to))
}

/// All tensors that a model of these sizes has.
pub(super) fn convert(
    mut sources: HashMap<String, Source>,
    sizes: &Sizes,
) -> Result<Vec<TensorEntry>, Problem> {
    let mut take = |name: &str| {
        let prefixed = format!("model.{name}");
        sources.remove(&prefixed).or_else(|| sources.remove(name))
    };
    let output = take(OUTPUT);
    let mut tensors = Vec::new();
    for expected in expected(sizes) {
        let name = name_of(&expected.name);
        let Some(source) = take(&name) else {
            let made = sinusoids(sizes.encoder.context, sizes.width);
            match made.filter(|_| name == POSITIONS) {
                Some(table) => tensors.push(table),
                None => {
                    let (tensor, expected) = (format!("model.{name}"), expected.shape);
                    return Err(Problem::MissingTensor { tensor, expected });
                }
            }
            continue;
        };
        if let Some(output) = &output
            && expected.name == TOKEN_EMBEDDING
            && output.bytes != source.bytes
        {
            let fault = "differs from the embedding of tokens, expected the same matrix".to_owned();
            return Err(Problem::SafetensorsTensor { tensor: output.name.clone(), fault });
        }
        tensors.push(entry(&expected, &source)?);
    }
    match sources.into_keys().min() {
        Some(tensor) => Err(Problem::UnknownTensor { tensor, architecture: ARCHITECTURE }),
        None => Ok(tensors),
    }
}

/// A tensor in a type that suits its use. Vectors and positions become F32, convolutions of BF16
/// too.
fn entry(expected: &Expected, source: &Source) -> Result<TensorEntry, Problem> {
    let fault = |fault: String| Problem::SafetensorsTensor { tensor: source.name.clone(), fault };
    let Some(dtype) = source.stored.dtype() else {
        return Err(fault(format!("has type {:?}, expected F32, F16 or BF16", source.stored)));
    };
    let shape: Vec<usize> = source.shape.iter().rev().copied().collect();
    if shape != expected.shape {
        let mut wanted = expected.shape.clone();
        wanted.reverse();
        return Err(fault(format!("has shape {:?}, expected {wanted:?}", source.shape)));
    }
    let keeps = match expected.kind {
        Kind::Matrix => true,
        Kind::Convolution => dtype != DType::BF16,
        Kind::Vector | Kind::Positions => dtype == DType::F32,
    };
    let (dtype, bytes) = match keeps {
        true => (dtype, source.bytes.clone()),
        false => (DType::F32, widened(dtype, &source.bytes).map_err(fault)?),
    };
    TensorEntry::new(expected.name.clone(), dtype, &shape, bytes)
        .ok_or_else(|| fault(format!("has shape {:?} in other bytes", source.shape)))
}

/// Values of F16 or BF16 as F32.
fn widened(dtype: DType, bytes: &Bytes) -> Result<Bytes, String> {
    let mut values = vec![0.0; bytes.len() / dtype.block_bytes()];
    pelton_quant::decode(dtype, bytes, &mut values)
        .map_err(|error| format!("cannot be decoded: {error}"))?;
    Ok(values.into_iter().flat_map(f32::to_le_bytes).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of transformers 5.23.0's `WhisperForConditionalGeneration`.
    #[test]
    fn names() {
        for (openai, transformers) in [
            ("encoder.conv1.weight", "encoder.conv1.weight"),
            ("encoder.positional_embedding", "encoder.embed_positions.weight"),
            ("encoder.blocks.3.attn_ln.bias", "encoder.layers.3.self_attn_layer_norm.bias"),
            ("encoder.blocks.0.mlp.2.weight", "encoder.layers.0.fc2.weight"),
            ("encoder.ln_post.weight", "encoder.layer_norm.weight"),
            ("decoder.token_embedding.weight", "decoder.embed_tokens.weight"),
            (
                "decoder.blocks.12.cross_attn.key.weight",
                "decoder.layers.12.encoder_attn.k_proj.weight",
            ),
            (
                "decoder.blocks.1.cross_attn_ln.weight",
                "decoder.layers.1.encoder_attn_layer_norm.weight",
            ),
            ("decoder.blocks.1.attn.out.bias", "decoder.layers.1.self_attn.out_proj.bias"),
            ("decoder.blocks.1.mlp_ln.bias", "decoder.layers.1.final_layer_norm.bias"),
            ("decoder.ln.bias", "decoder.layer_norm.bias"),
        ] {
            assert_eq!(name_of(openai), transformers);
        }
    }
}
