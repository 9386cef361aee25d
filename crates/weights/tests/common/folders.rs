//! Small Hugging Face directories, with the freedom to contradict themselves.

use std::fs;
use std::path::Path;

use serde_json::{Value as Json, json};
use tempfile::TempDir;

/// Contents of a directory with one safetensors file.
#[derive(Clone)]
pub(crate) struct Folder {
    pub(crate) config: Json,
    /// The header of the safetensors file, as text.
    pub(crate) header: String,
    /// The length that the file states for its header, if it is another one.
    pub(crate) header_len: Option<u64>,
    pub(crate) data: Vec<u8>,
    /// Further files by name.
    pub(crate) more: Vec<(String, String)>,
}

/// Name, shape and contents of a tensor of f32.
type Tensor = (String, Vec<u64>);

/// The tensors of a llama of one layer with a hidden width of 8.
fn tensors() -> Vec<Tensor> {
    let layer = |name: &str| format!("model.layers.0.{name}.weight");
    vec![
        ("model.embed_tokens.weight".to_owned(), vec![4, 8]),
        ("lm_head.weight".to_owned(), vec![4, 8]),
        ("model.norm.weight".to_owned(), vec![8]),
        (layer("input_layernorm"), vec![8]),
        (layer("post_attention_layernorm"), vec![8]),
        (layer("self_attn.q_proj"), vec![8, 8]),
        (layer("self_attn.k_proj"), vec![4, 8]),
        (layer("self_attn.v_proj"), vec![4, 8]),
        (layer("self_attn.o_proj"), vec![8, 8]),
        (layer("mlp.gate_proj"), vec![6, 8]),
        (layer("mlp.up_proj"), vec![6, 8]),
        (layer("mlp.down_proj"), vec![8, 6]),
    ]
}

/// A header for tensors of f32 that lie one after another, and their bytes.
pub(crate) fn packed(tensors: &[Tensor]) -> (Json, Vec<u8>) {
    let mut header = json!({"__metadata__": {"format": "pt"}});
    let mut end = 0;
    for (name, shape) in tensors {
        let start = end;
        end += shape.iter().product::<u64>() * 4;
        header[name] = json!({"dtype": "F32", "shape": shape, "data_offsets": [start, end]});
    }
    (header, (0..end).map(|i| (i % 63) as u8).collect())
}

impl Folder {
    pub(crate) fn valid() -> Self {
        let (header, data) = packed(&tensors());
        let config = json!({
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_act": "silu",
            "hidden_size": 8,
            "intermediate_size": 6,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "max_position_embeddings": 16,
            "rms_norm_eps": 1e-5,
            "vocab_size": 4,
            "rope_theta": 10000.0,
        });
        let header = header.to_string();
        Self { config, header, header_len: None, data, more: Vec::new() }
    }

    /// A valid directory with a changed configuration.
    pub(crate) fn with_config(change: impl FnOnce(&mut Json)) -> Self {
        let mut folder = Self::valid();
        change(&mut folder.config);
        folder
    }

    /// A valid directory with a changed header.
    pub(crate) fn with_header(change: impl FnOnce(&mut Json)) -> Self {
        let mut folder = Self::valid();
        let mut header = serde_json::from_str(&folder.header).unwrap();
        change(&mut header);
        folder.header = header.to_string();
        folder
    }

    /// A valid directory with one more file.
    pub(crate) fn with_file(name: &str, text: impl ToString) -> Self {
        let mut folder = Self::valid();
        folder.more.push((name.to_owned(), text.to_string()));
        folder
    }

    /// The safetensors file.
    pub(crate) fn safetensors(&self) -> Vec<u8> {
        let len = self.header_len.unwrap_or(self.header.len() as u64);
        let mut bytes = len.to_le_bytes().to_vec();
        bytes.extend(self.header.as_bytes());
        bytes.extend(&self.data);
        bytes
    }

    pub(crate) fn write(&self, folder: &Path) {
        fs::write(folder.join("config.json"), self.config.to_string()).unwrap();
        fs::write(folder.join("model.safetensors"), self.safetensors()).unwrap();
        for (name, text) in &self.more {
            fs::write(folder.join(name), text).unwrap();
        }
    }

    pub(crate) fn written(&self) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        self.write(folder.path());
        folder
    }
}
