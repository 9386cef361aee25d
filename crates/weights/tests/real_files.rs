//! Files written by other programs, from the folder of shared test data if it is present.

use std::fs;
use std::path::{Path, PathBuf};

use pelton_testing::{Need, skip};
use pelton_weights::{Checkpoint, Value};

fn shared(folder: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(folder);
    if !path.is_dir() {
        skip(Need::Data, format_args!("no {}", path.display()));
        return None;
    }
    Some(path)
}

/// llama.cpp's vocabulary files: no tensors, and the longest arrays of real files.
#[test]
fn vocabularies_open() {
    let Some(folder) = shared("vocab") else { return };
    let mut seen = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "gguf") {
            continue;
        }
        let model = Checkpoint::open(&path).unwrap();
        let metadata = model.metadata();
        let tokens = metadata.string_array("tokenizer.ggml.tokens").unwrap();
        let types = metadata.opt_i32_array("tokenizer.ggml.token_type").unwrap().unwrap();
        assert_eq!(tokens.len(), types.len(), "{}", path.display());
        assert_eq!(tokens.filter_map(Result::ok).count(), types.len(), "{}", path.display());
        for (key, value) in metadata.iter() {
            if let Value::Array(array) = value {
                assert_eq!(array.values().count(), array.len(), "{key} of {}", path.display());
            }
        }
        // A vocabulary file is not a model: it has no embedding.
        assert!(model.tensor("token_embd.weight").is_none());
        seen += 1;
    }
    assert!(seen > 0);
}
