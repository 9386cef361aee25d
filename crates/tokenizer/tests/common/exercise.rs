//! Calls every operation of a tokenizer; none may panic.

use std::fs;

use pelton_tokenizer::{Special, Tokenizer};
use pelton_weights::Checkpoint;

/// Llama of one layer; the number of tokens is the greatest that a seed needs.
const CONFIG: &str = r#"{"architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "vocab_size": 512, "hidden_size": 1, "intermediate_size": 1, "num_hidden_layers": 1,
    "num_attention_heads": 1, "tie_word_embeddings": true, "bos_token_id": 1, "eos_token_id": 2,
    "cls_token_id": 1, "sep_token_id": 2}"#;

/// A safetensors file of one number.
const WEIGHTS: &str =
    r#"{"model.embed_tokens.weight":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}}"#;

/// Opens `tokenizer.json`, a zero byte and a text: encodes the text and decodes its ids. Returns
/// whether the file is a tokenizer.
pub(crate) fn exercise(bytes: &[u8]) -> bool {
    let (file, text) = match bytes.iter().position(|byte| *byte == 0) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &b" a<s>Hello  world\n"[..]),
    };
    let Ok(folder) = tempfile::tempdir() else { return false };
    let mut weights = (WEIGHTS.len() as u64).to_le_bytes().to_vec();
    weights.extend(WEIGHTS.as_bytes());
    weights.extend([0; 4]);
    let files = [
        ("config.json", CONFIG.as_bytes()),
        ("model.safetensors", &weights),
        ("tokenizer.json", file),
    ];
    for (name, bytes) in files {
        if fs::write(folder.path().join(name), bytes).is_err() {
            return false;
        }
    }
    let Ok(model) = Checkpoint::open(folder.path()) else { return false };
    let Ok(tokenizer) = Tokenizer::from_metadata(model.metadata()) else { return false };
    let text = String::from_utf8_lossy(text);
    for special in [Special::Ignore, Special::Plain, Special::Parse] {
        if let Ok(ids) = tokenizer.encode(&text, special) {
            assert!(ids.iter().all(|id| *id < 512));
            let _ = (tokenizer.decode(&ids, true), tokenizer.decode(&ids, false));
        }
    }
    let _ = tokenizer.encode_prompt(&text);
    let _ = tokenizer.encode_pair(&text, &text);
    let _ = tokenizer.encode_continuing(&text);
    let _ = tokenizer.encode_parts(&[(&text, Special::Parse), (&text, Special::Ignore)]);
    true
}
