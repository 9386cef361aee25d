//! `tokenizer.json` with the pre-tokenizer Metaspace, compared with PyPI `tokenizers`
//! (`fixtures/make_metaspace.py`): texts that begin with a space get no other one before them.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::fs;
use std::path::Path;

use pelton_tokenizer::{Special, Tokenizer};
use pelton_weights::Checkpoint;
use serde_json::{Value, json};

/// The tokenizer of a directory with this `tokenizer.json`.
fn open(contents: &Value) -> Tokenizer {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../weights/tests/fixtures/hf/llama");
    let folder = tempfile::tempdir().unwrap();
    for name in ["config.json", "model.safetensors"] {
        fs::copy(model.join(name), folder.path().join(name)).unwrap();
    }
    fs::write(folder.path().join("tokenizer.json"), contents.to_string()).unwrap();
    let checkpoint = Checkpoint::open(folder.path()).unwrap();
    Tokenizer::from_metadata(checkpoint.metadata()).unwrap()
}

#[test]
fn ids_are_those_of_tokenizers() {
    let all: Value = serde_json::from_str(include_str!("fixtures/metaspace.json")).unwrap();
    let texts: Vec<&str> =
        all["texts"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    let (mut compared, mut wrong) = (0, String::new());
    for model in ["bpe", "unigram"] {
        for case in all[model]["cases"].as_array().unwrap() {
            let (scheme, split) = (&case["scheme"], &case["split"]);
            let mut contents = all[model]["tokenizer"].clone();
            contents["pre_tokenizer"] = json!({
                "type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": scheme, "split": split,
            });
            let tokenizer = open(&contents);
            for (text, ids) in texts.iter().zip(case["ids"].as_array().unwrap()) {
                let expected: Vec<u32> = serde_json::from_value(ids.clone()).unwrap();
                let got = tokenizer.encode(text, Special::Parse).unwrap();
                compared += 1;
                if got != expected {
                    wrong += &format!(
                        "{model} {scheme} {split} {text:?}: {got:?}, expected {expected:?}\n"
                    );
                }
            }
        }
    }
    assert_eq!(compared, 12 * texts.len());
    assert!(wrong.is_empty(), "\n{wrong}");
}
