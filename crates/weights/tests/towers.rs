//! Vision towers: which file of a folder is one, and what is refused.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by it")]

use std::fs;
use std::path::{Path, PathBuf};

use pelton_weights::{Checkpoint, GgufWriter, Problem};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/vision").join(name)
}

/// A file of a text model without tensors.
fn text_model(path: &Path, architecture: &str, width: u32) {
    let mut writer = GgufWriter::new();
    writer.set("general.architecture", architecture).unwrap();
    writer.set(&format!("{architecture}.embedding_length"), width).unwrap();
    fs::write(path, writer.begin(Vec::new()).unwrap().finish().unwrap()).unwrap();
}

#[test]
fn the_tower_beside_a_file_is_found_by_its_contents() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    text_model(&at("model.gguf"), "gemma3", 24);
    assert!(Checkpoint::open_tower(at("model.gguf")).unwrap().is_none());
    // one of another model, and a broken one
    fs::copy(fixture("qwen3-vl/mmproj.gguf"), at("mmproj-a.gguf")).unwrap();
    fs::write(at("mmproj-b.gguf"), b"GGUF").unwrap();
    assert!(Checkpoint::open_tower(at("model.gguf")).unwrap().is_none());
    fs::copy(fixture("gemma3/mmproj.gguf"), at("eyes.gguf")).unwrap();
    let tower = Checkpoint::open_tower(at("model.gguf")).unwrap().unwrap();
    assert!(tower.name().ends_with("eyes.gguf"));
    // a tower for another width
    text_model(&at("wide.gguf"), "gemma3", 32);
    assert!(Checkpoint::open_tower(at("wide.gguf")).unwrap().is_none());
    // the file itself
    let tower = Checkpoint::open_tower(at("eyes.gguf")).unwrap().unwrap();
    let projection = tower.tensor("mm.input_projection.weight").unwrap();
    assert_eq!(projection.shape, [20, 24]);
    // as it lies in the file
    let file = Checkpoint::open(at("eyes.gguf")).unwrap();
    assert_eq!(file.tensor("mm.input_projection.weight").unwrap().shape, [24, 20]);
}

#[test]
fn two_towers_of_a_kind_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    text_model(&at("model.gguf"), "gemma3", 24);
    for name in ["mmproj-1.gguf", "mmproj-2.gguf"] {
        fs::copy(fixture("gemma3/mmproj.gguf"), at(name)).unwrap();
    }
    let error = Checkpoint::open_tower(at("model.gguf")).unwrap_err();
    assert!(matches!(error.problem(), Problem::SeveralTowers { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("mmproj-1.gguf") && text.contains("mmproj-2.gguf"), "{text}");
}

#[test]
fn a_directory_without_a_tower_has_none() {
    let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models/gemma3");
    assert!(Checkpoint::open_tower(text).unwrap().is_none());
}

#[test]
fn unknown_towers_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let config = r#"{"model_type": "kosmos", "hidden_size": 8, "vision_config": {"depth": 1}}"#;
    fs::write(folder.path().join("config.json"), config).unwrap();
    let error = Checkpoint::open_tower(folder.path()).unwrap_err();
    assert!(error.to_string().contains("'kosmos'"), "{error}");
}

#[test]
fn missing_settings_and_unknown_values_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["config.json", "model.safetensors", "preprocessor_config.json"] {
        fs::copy(fixture("gemma3").join(name), folder.path().join(name)).unwrap();
    }
    let path = folder.path().join("config.json");
    let config = fs::read_to_string(&path).unwrap();
    let tower = Checkpoint::open_tower(folder.path()).unwrap().unwrap();
    assert!(tower.vision_settings().unwrap().json.contains("Gemma3ImageProcessor"));
    fs::remove_file(folder.path().join("preprocessor_config.json")).unwrap();
    let tower = Checkpoint::open_tower(folder.path()).unwrap().unwrap();
    let error = tower.vision_settings().unwrap_err();
    assert!(matches!(error.problem(), Problem::NoPictureSettings), "{error}");
    fs::write(&path, config.replace("gelu_pytorch_tanh", "relu")).unwrap();
    let error = Checkpoint::open_tower(folder.path()).unwrap_err().to_string();
    assert!(error.contains("relu") && error.contains("gelu_pytorch_tanh"), "{error}");
}
