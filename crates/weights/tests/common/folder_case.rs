//! Opens a directory and reads all of it.

use std::fs;
use std::path::Path;

use pelton_weights::{Checkpoint, Value};

/// Reads all metadata and tensors of a directory. Returns whether it is a model.
pub(crate) fn read_everything(folder: &Path) -> bool {
    let Ok(model) = Checkpoint::open(folder) else { return false };
    for (_, value) in model.metadata().iter() {
        if let Value::Array(array) = value {
            assert_eq!(array.values().count(), array.len());
        }
    }
    for tensor in model.tensors() {
        assert_eq!(tensor.decode().len(), tensor.row_len() * tensor.rows());
    }
    true
}

/// Reads a directory that one text describes: `config.json`, a zero byte, `tokenizer.json`, a zero
/// byte, and the safetensors file without the length of its header, which a further zero byte ends.
#[allow(dead_code, reason = "one of the tests that share this file does not call it")]
pub(crate) fn read_case(bytes: &[u8]) -> bool {
    let mut parts = bytes.splitn(4, |byte| *byte == 0);
    let mut next = || parts.next().unwrap_or_default();
    let (config, tokenizer, header, data) = (next(), next(), next(), next());
    let Ok(folder) = tempfile::tempdir() else { return false };
    let mut weights = (header.len() as u64).to_le_bytes().to_vec();
    weights.extend(header);
    weights.extend(data);
    let mut files = vec![("config.json", config), ("model.safetensors", &weights)];
    if !tokenizer.is_empty() {
        files.push(("tokenizer.json", tokenizer));
    }
    for (name, bytes) in files {
        if fs::write(folder.path().join(name), bytes).is_err() {
            return false;
        }
    }
    read_everything(folder.path())
}
