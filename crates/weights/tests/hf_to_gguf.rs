//! The converter compared with llama.cpp's: `fixtures/hf` has tiny models and their conversions
//! by llama.cpp (see `fixtures/make_hf.py`).

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "../examples/hf_to_gguf/convert.rs"]
mod convert;

use std::fs;
use std::path::{Path, PathBuf};

use convert::{Options, convert};
use pelton_quant::DType;
use pelton_weights::{Checkpoint, Keys, Value};
use safetensors::SafeTensors;
use serde_json::{Value as Json, json};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/hf").join(name)
}

fn converted(directory: &Path, dtype: DType) -> anyhow::Result<Checkpoint> {
    let folder = tempfile::tempdir()?;
    let output = folder.path().join("out.gguf");
    convert(directory, &output, &Options { dtype, pre: Some("qwen2".to_owned()) })?;
    Ok(Checkpoint::open(output)?)
}

/// Keys that are redundant or only descriptive, and may differ.
fn is_incidental(key: &str) -> bool {
    ["general.name", "general.size_label", "tokenizer.ggml.add_sep_token"].contains(&key)
}

#[track_caller]
fn assert_as_llama_cpp(name: &str, dtype: DType) -> Checkpoint {
    let ours = converted(&fixture(name), dtype).unwrap();
    let theirs = Checkpoint::open(fixture(&format!("{name}.gguf"))).unwrap();

    assert_eq!(ours.tensors().len(), theirs.tensors().len());
    for expected in theirs.tensors() {
        let found = ours.require(expected.name, expected.shape).unwrap();
        assert_eq!(found.dtype, expected.dtype, "{}", found.name);
        if found.name == "rope_freqs.weight" {
            // llama.cpp computes in f32, this converter in f64.
            for (found, expected) in found.decode().iter().zip(expected.decode()) {
                assert!((found - expected).abs() <= 1e-6 * expected, "{found} {expected}");
            }
        } else {
            assert!(found.bytes == expected.bytes, "{}", found.name);
        }
    }
    for (key, expected) in theirs.metadata().iter().filter(|(key, _)| !is_incidental(key)) {
        let found = ours.metadata().get(key);
        if key == "tokenizer.ggml.model" && *expected == Value::from("none") {
            // Both names stand for a model without a vocabulary.
            assert_eq!(found, Some(&Value::from("no_vocab")));
        } else {
            assert_eq!(found, Some(expected), "{key}");
        }
    }
    // llama.cpp omits the window.
    let window = format!("{}.attention.sliding_window", keys(&ours).architecture());
    for (key, found) in ours.metadata().iter().filter(|(key, _)| *key != window) {
        let redundant = is_incidental(key) || key.starts_with("tokenizer.");
        assert!(redundant || theirs.metadata().get(key) == Some(found), "{key}");
    }
    ours
}

fn keys(model: &Checkpoint) -> Keys<'_> {
    Keys::new(model.metadata()).unwrap()
}

fn size(model: &Checkpoint, name: &str) -> usize {
    keys(model).size(name, 1 << 20).unwrap()
}

fn scaling(model: &Checkpoint) -> Option<&str> {
    keys(model).opt_string("rope.scaling.type").unwrap()
}

#[test]
fn llama_with_llama3_scaling_and_a_tokenizer() {
    let found = assert_as_llama_cpp("llama", DType::F16);
    let names = ["block_count", "embedding_length", "feed_forward_length", "vocab_size"];
    assert_eq!(names.map(|name| size(&found, name)), [1, 32, 64, 320]);
    let names = ["head_count", "head_count_kv", "key_length"];
    assert_eq!(names.map(|name| size(&found, &format!("attention.{name}"))), [4, 2, 16]);
    assert_eq!(keys(&found).positive("rope.freq_base").unwrap(), 500_000.0);
    assert_eq!(scaling(&found), None);
}

#[test]
fn llama_with_biases_and_linear_scaling() {
    let found = assert_as_llama_cpp("llama-bias", DType::F32);
    assert_eq!(scaling(&found), Some("linear"));
    assert_eq!(keys(&found).positive("rope.scaling.factor").unwrap(), 2.0);
}

#[test]
fn mistral_with_a_window() {
    let found = assert_as_llama_cpp("mistral", DType::Q8_0);
    assert_eq!(keys(&found).architecture(), "llama");
    assert_eq!(size(&found, "attention.sliding_window"), 16);
}

#[test]
fn qwen2_with_yarn() {
    let found = assert_as_llama_cpp("qwen2", DType::BF16);
    assert_eq!(scaling(&found), Some("yarn"));
    assert_eq!(keys(&found).positive("rope.scaling.factor").unwrap(), 4.0);
    assert_eq!(size(&found, "rope.scaling.original_context_length"), 64);
}

#[test]
fn qwen3_with_tied_embeddings_and_a_tokenizer() {
    let found = assert_as_llama_cpp("qwen3", DType::Q8_0);
    let names = ["attention.key_length", "embedding_length"];
    assert_eq!(names.map(|name| size(&found, name)), [16, 32]);
}

/// A copy of a fixture with a modified configuration.
fn altered(name: &str, change: impl FnOnce(&mut Json)) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(fixture(name)).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    alter(&folder.path().join("config.json"), change);
    folder
}

fn alter(path: &Path, change: impl FnOnce(&mut Json)) {
    let mut json = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut json);
    fs::write(path, json.to_string()).unwrap();
}

/// Before transformers 5, the rotary embedding had two other keys.
#[test]
fn old_rope_keys_are_equivalent() {
    let folder = altered("llama", |config| {
        let mut scaling = config["rope_parameters"].take();
        config["rope_theta"] = scaling["rope_theta"].take();
        scaling["type"] = scaling["rope_type"].take();
        config["rope_scaling"] = scaling;
    });
    let old = converted(folder.path(), DType::F16).unwrap();
    let new = converted(&fixture("llama"), DType::F16).unwrap();
    let divisors = |model: &Checkpoint| model.tensor("rope_freqs.weight").unwrap().decode();
    // The folders' names differ.
    let keys = |model: &Checkpoint| -> Vec<(String, Value)> {
        let own = |(key, _): &(&str, &Value)| *key != "general.name";
        model.metadata().iter().filter(own).map(|(k, v)| (k.to_owned(), v.clone())).collect()
    };
    assert_eq!(keys(&old), keys(&new));
    assert_eq!(divisors(&old), divisors(&new));
}

#[test]
fn shards_are_combined() {
    let folder = altered("mistral", |_| {});
    let whole = folder.path().join("model.safetensors");
    let bytes = fs::read(&whole).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap().tensors();
    let mut files = serde_json::Map::new();
    for (number, half) in tensors.chunks(tensors.len().div_ceil(2)).enumerate() {
        let file = format!("model-{number}.safetensors");
        files.extend(half.iter().map(|(name, _)| (name.clone(), file.clone().into())));
        safetensors::serialize_to_file(half.to_vec(), None, &folder.path().join(file)).unwrap();
    }
    fs::remove_file(whole).unwrap();
    let index = json!({"weight_map": files});
    fs::write(folder.path().join("model.safetensors.index.json"), index.to_string()).unwrap();

    let sharded = converted(folder.path(), DType::F16).unwrap();
    let whole = converted(&fixture("mistral"), DType::F16).unwrap();
    let all = |model: &Checkpoint| -> Vec<_> {
        model.tensors().map(|tensor| (tensor.name.to_owned(), tensor.bytes.to_vec())).collect()
    };
    assert!(all(&sharded) == all(&whole));
}

#[test]
fn windows_of_qwen() {
    let window = |types: Option<Json>, first: usize| {
        let folder = altered("qwen2", |config| {
            config["use_sliding_window"] = true.into();
            config["sliding_window"] = 8.into();
            config["max_window_layers"] = first.into();
            config["layer_types"] = types.unwrap_or(Json::Null);
        });
        let model = converted(folder.path(), DType::F16).unwrap();
        keys(&model).opt_size("attention.sliding_window", 99).unwrap()
    };
    assert_eq!(window(None, 0), Some(8));
    assert_eq!(window(None, 1), None);
    assert_eq!(window(Some(json!(["sliding_attention"])), 1), Some(8));
    assert_eq!(window(Some(json!(["full_attention"])), 0), None);
}

/// Rejected files; the remaining faults are in `hugging_face_malformed.rs`.
#[test]
fn features_without_gguf_keys_are_rejected() {
    let rejected = |folder: &Path, expected: &str| {
        let error = converted(folder, DType::F16).unwrap_err();
        assert!(format!("{error:#}").contains(expected), "{error:#}");
    };
    let cases: [(&str, &str, Json, &str); 7] = [
        ("llama", "architectures", json!(["Gpt9"]), "architecture \"Gpt9\" is not supported"),
        ("llama", "hidden_act", json!("gelu"), "\"hidden_act\" is gelu, expected silu"),
        ("llama", "hidden_size", json!(-1), "\"hidden_size\" is -1, expected an integer"),
        ("llama", "rope_parameters", json!({"rope_type": "odd"}), "\"rope_type\" is odd"),
        ("qwen3", "tie_word_embeddings", json!(false), "\"output.weight\" is missing"),
        ("qwen3", "vocab_size", json!(290), "expected below vocab_size 290"),
        ("mistral", "vocab_size", Json::Null, "\"vocab_size\" is missing"),
    ];
    for (name, key, value, expected) in cases {
        let folder = altered(name, |config| config[key] = value);
        rejected(folder.path(), expected);
    }
    let mixed = altered("mistral", |config| {
        config["num_hidden_layers"] = 2.into();
        config["layer_types"] = json!(["full_attention", "sliding_attention"]);
    });
    rejected(mixed.path(), "\"layer_types\" is a mixture");
}
