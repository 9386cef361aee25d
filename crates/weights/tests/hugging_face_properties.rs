//! Mutated Hugging Face directories: none may panic.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "common/folder_case.rs"]
mod folder_case;
#[path = "common/folders.rs"]
#[expect(dead_code, reason = "this test uses a subset")]
mod folders;

use std::fs;
use std::path::{Path, PathBuf};

use folder_case::read_everything;
use folders::Folder;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::Value as Json;

/// The tiny models, one of each kind of tensor transform.
const MODELS: &[&str] = &[
    "llama3",
    "phi3-longrope",
    "gpt2",
    "gpt-neox",
    "falcon-40b",
    "mixtral",
    "qwen2-moe",
    "gpt-oss-mxfp4",
    "gpt-oss-plain",
    "deepseek-v3",
    "gemma4-shared-kv",
    "qwen3.5-moe",
    "qwen3-next",
    "llama4",
    "granite-moe",
    "xlm-roberta-reranker",
    "embedding-gemma",
    "modernbert",
    "qwen3-reranker",
    "internlm2",
    "nomic-bert-moe",
    "llama-awq",
    "llama-gptq",
];

fn model(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models").join(name)
}

/// Copies a model's files, also those of its modules.
fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            fs::create_dir(&target).unwrap();
            copy(&entry.path(), &target);
        } else if entry.path().extension().is_none_or(|e| e != "npy" && e != "gguf") {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A mutation of a JSON value: its path by indexes, and the new value.
#[derive(Clone, Debug)]
struct Change {
    path: Vec<Index>,
    value: Option<Json>,
}

fn change() -> impl Strategy<Value = Change> {
    let number = prop_oneof![
        (0u64..10).prop_map(Json::from),
        any::<u64>().prop_map(Json::from),
        any::<i32>().prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        (0u32..63).prop_map(|shift| Json::from(1u64 << shift)),
    ];
    let value = prop_oneof![
        6 => number.prop_map(Some),
        1 => Just(None),
        1 => Just(Some(Json::Null)),
        1 => Just(Some(Json::Bool(true))),
        1 => Just(Some(Json::from("x"))),
        1 => Just(Some(Json::Array(Vec::new()))),
        1 => Just(Some(Json::Object(serde_json::Map::new()))),
    ];
    (vec(any::<Index>(), 1..4), value).prop_map(|(path, value)| Change { path, value })
}

impl Change {
    fn apply(&self, json: &mut Json) {
        let mut at = json;
        for (depth, index) in self.path.iter().enumerate() {
            let last = depth + 1 == self.path.len();
            let len = match at {
                Json::Object(map) => map.len(),
                Json::Array(items) => items.len(),
                _ => 0,
            };
            if len == 0 {
                break;
            }
            let index = index.index(len);
            if last && self.value.is_none() {
                match at {
                    Json::Object(map) => {
                        let key = map.keys().nth(index).unwrap().clone();
                        map.remove(&key);
                    }
                    Json::Array(items) => {
                        items.remove(index);
                    }
                    _ => {}
                }
                return;
            }
            at = match at {
                Json::Object(map) => map.values_mut().nth(index).unwrap(),
                Json::Array(items) => &mut items[index],
                _ => return,
            };
        }
        if let Some(value) = &self.value {
            *at = value.clone();
        }
    }
}

fn changed_json(path: &Path, changes: &[Change]) {
    let mut json = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    for change in changes {
        change.apply(&mut json);
    }
    fs::write(path, json.to_string()).unwrap();
}

/// Changes the header of a safetensors file.
fn changed_header(path: &Path, changes: &[Change]) {
    let bytes = fs::read(path).unwrap();
    let length = u64::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
    let (header, data) = bytes[8..].split_at(length);
    let mut json = serde_json::from_slice(header).unwrap();
    for change in changes {
        change.apply(&mut json);
    }
    let header = json.to_string();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    fs::write(path, bytes).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn changed_configurations_do_not_panic(
        name in select(MODELS),
        changes in vec(change(), 1..4),
    ) {
        let folder = tempfile::tempdir().unwrap();
        copy(&model(name), folder.path());
        changed_json(&folder.path().join("config.json"), &changes);
        read_everything(folder.path());
    }

    #[test]
    fn changed_headers_do_not_panic(name in select(MODELS), changes in vec(change(), 1..4)) {
        let folder = tempfile::tempdir().unwrap();
        copy(&model(name), folder.path());
        changed_header(&folder.path().join("model.safetensors"), &changes);
        read_everything(folder.path());
    }

    #[test]
    fn changed_tokenizers_do_not_panic(name in select(MODELS), changes in vec(change(), 1..4)) {
        let folder = tempfile::tempdir().unwrap();
        copy(&model(name), folder.path());
        changed_json(&folder.path().join("tokenizer.json"), &changes);
        read_everything(folder.path());
    }

    #[test]
    fn random_headers_do_not_panic(bytes in vec(any::<u8>(), 0..200), length in 0u64..64) {
        let folder = Folder::valid().written();
        let mut file = length.to_le_bytes().to_vec();
        file.extend(bytes);
        fs::write(folder.path().join("model.safetensors"), file).unwrap();
        read_everything(folder.path());
    }

    #[test]
    fn changed_bytes_do_not_panic(
        file in select(&["config.json", "model.safetensors"][..]),
        changes in vec((any::<Index>(), any::<u8>()), 1..4),
        cut in proptest::option::of(any::<Index>()),
    ) {
        let folder = Folder::valid().written();
        let path = folder.path().join(file);
        let mut bytes = fs::read(&path).unwrap();
        for (at, value) in changes {
            let at = at.index(bytes.len().min(1200));
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        fs::write(&path, bytes).unwrap();
        read_everything(folder.path());
    }
}

/// The unchanged directories are models, so that the mutations above start from valid files.
#[test]
fn the_directories_are_models() {
    for name in MODELS {
        assert!(read_everything(&model(name)), "{name}");
    }
    assert!(read_everything(Folder::valid().written().path()));
}
