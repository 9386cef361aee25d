//! The tokenizer of a directory with a `tokenizer.json`.

use std::fs;

use pelton_tokenizer::Tokenizer;
use pelton_weights::Checkpoint;
use serde_json::Value;

/// Llama of one layer and 512 tokens.
const CONFIG: &str = r#"{"architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "vocab_size": 512, "hidden_size": 1, "intermediate_size": 1, "num_hidden_layers": 1,
    "num_attention_heads": 1, "tie_word_embeddings": true, "bos_token_id": 1,
    "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}"#;

/// A safetensors file of one number.
const WEIGHTS: &str =
    r#"{"model.embed_tokens.weight":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}}"#;

/// # Errors
/// The text of the error that refuses the file.
pub(crate) fn open(file: &Value) -> Result<Tokenizer, String> {
    let folder = tempfile::tempdir().map_err(|fault| fault.to_string())?;
    let mut weights = (WEIGHTS.len() as u64).to_le_bytes().to_vec();
    weights.extend(WEIGHTS.as_bytes());
    weights.extend([0; 4]);
    let file = file.to_string();
    for (name, bytes) in [
        ("config.json", CONFIG.as_bytes()),
        ("model.safetensors", &weights),
        ("tokenizer.json", file.as_bytes()),
    ] {
        fs::write(folder.path().join(name), bytes).map_err(|fault| fault.to_string())?;
    }
    let checkpoint = Checkpoint::open(folder.path()).map_err(|fault| fault.to_string())?;
    Tokenizer::from_metadata(checkpoint.metadata()).map_err(|fault| fault.to_string())
}
