//! Vision towers: which file of a folder is one, and what is refused.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pelton_testing::{Need, skip, towers::MODELS};
use pelton_weights::{Checkpoint, Conversion, DType, GgufWriter, Problem, Quantize};

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

/// A tower of the fixture as it lies in a file.
fn written(name: &str, to: Option<DType>) -> Vec<u8> {
    let tower = Checkpoint::open_tower_file(fixture(name)).unwrap().unwrap();
    let conversion = Conversion::convert(&tower, to).unwrap();
    conversion.write(Vec::new(), |_, _| {}).unwrap()
}

#[test]
fn converted_towers_are_those_of_llama_cpp() {
    for name in MODELS.iter().filter(|model| model.is_converted).map(|model| model.name) {
        let found = Checkpoint::from_bytes(name, written(name, None)).unwrap();
        let expected = Checkpoint::open(fixture(name).join("mmproj.gguf")).unwrap();
        for expected in expected.tensors() {
            let found = found.require(expected.name, expected.shape).unwrap();
            // Gemma 3's projection is F16 in such files, and F32 here
            let same = if expected.dtype == DType::F16 {
                let pairs = found.decode().into_iter().zip(expected.decode());
                pairs.into_iter().all(|(found, of)| (found - of).abs() <= 1e-3 * of.abs().max(1e-3))
            } else {
                found.dtype == expected.dtype && found.bytes == expected.bytes
            };
            assert!(same, "{name}: {}", expected.name);
        }
        let more: Vec<_> = found.tensors().map(|tensor| tensor.name).collect();
        let more: Vec<_> =
            more.into_iter().filter(|name| expected.tensor(name).is_none()).collect();
        // llama.cpp's converter finds it in published directories alone
        let is_pixtral = ["mistral3", "pixtral"].contains(&name);
        let known: &[&str] = if is_pixtral { &["v.token_embd.img_break"] } else { &[] };
        assert_eq!(more, known, "{name}");
        let is_incidental = |key: &str| {
            // the converter has the width of the text there
            let is_wrong = name == "qwen2-vl" && key == "clip.vision.feed_forward_length";
            // nothing of ours reads sounds of files with both
            let is_sound = key.starts_with("clip.audio.") || key == "clip.has_audio_encoder";
            ["general.name", "general.size_label"].contains(&key) || is_wrong || is_sound
        };
        for (key, value) in expected.metadata().iter().filter(|(key, _)| !is_incidental(key)) {
            assert_eq!(found.metadata().get(key), Some(value), "{name}: {key}");
        }
    }
}

/// Names of tensors and keys, against those of PyPI `gguf`.
#[test]
fn the_package_gguf_knows_all_names() {
    let python = std::env::var_os("PELTON_PYTHON").unwrap_or_else(|| "python3".into());
    let has = Command::new(&python).args(["-c", "import gguf"]).output();
    if !has.is_ok_and(|output| output.status.success()) {
        skip(Need::Python, format_args!("{} has no package gguf", python.display()));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let files = MODELS.map(|model| {
        let name = model.name;
        let path = folder.path().join(format!("mmproj-{name}.gguf"));
        fs::write(&path, written(name, Some(DType::F16))).unwrap();
        path
    });
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/check_mmproj.py");
    let output = Command::new(&python).arg(script).args(files).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// The embedding of `[IMG_BREAK]` is a row of the text's table.
#[test]
fn the_break_of_lines_is_a_row_of_the_text() {
    for name in ["mistral3", "pixtral"] {
        let tower = Checkpoint::open_tower_file(fixture(name)).unwrap().unwrap();
        let text = Checkpoint::open(fixture(name)).unwrap();
        let (table, found) = ("token_embd.weight", "v.token_embd.img_break");
        let (table, found) = (text.tensor(table).unwrap(), tower.tensor(found).unwrap());
        // the tokenizer has 107 tokens, then [IMG], then this
        let row = &table.decode()[108 * table.row_len()..][..table.row_len()];
        assert_eq!((found.shape, found.decode().as_slice()), (&[row.len()][..], row));
    }
}

/// Matrices are quantized; patches, positions, norms and biases are not.
#[test]
fn a_file_of_a_tower_is_quantized() {
    let file = written("mistral3", None);
    let tower = Checkpoint::from_bytes("mmproj.gguf", file).unwrap();
    for (to, dtype) in [(Quantize::Q8_0, DType::Q8_0), (Quantize::F16, DType::F16)] {
        let conversion = Conversion::quantize(&tower, to, None).unwrap();
        let made = conversion.write(Vec::new(), |_, _| {}).unwrap();
        let made = Checkpoint::from_bytes("made.gguf", made).unwrap();
        let of = |name: &str| made.tensor(name).unwrap().dtype;
        assert_eq!(of("v.blk.0.attn_q.weight"), dtype);
        assert_eq!(of("mm.1.weight"), dtype);
        for name in [
            "v.patch_embd.weight",
            "mm.patch_merger.weight",
            "v.pre_ln.weight",
            "v.blk.1.ln1.weight",
        ] {
            assert_eq!(of(name), DType::F32, "{name}");
        }
    }
}

#[test]
fn the_file_with_the_name_of_the_model_is_its_tower() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["a.gguf", "b.gguf"] {
        text_model(&at(name), "gemma3", 24);
        fs::copy(fixture("gemma3/mmproj.gguf"), at(&format!("mmproj-{name}"))).unwrap();
    }
    let tower = Checkpoint::open_tower(at("b.gguf")).unwrap().unwrap();
    assert!(tower.name().ends_with("mmproj-b.gguf"));
}

#[test]
fn the_tower_of_folders_is_above_them() {
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().join("Q8_0");
    fs::create_dir(&below).unwrap();
    text_model(&below.join("a.gguf"), "gemma3", 24);
    fs::copy(fixture("gemma3/mmproj.gguf"), folder.path().join("eyes.gguf")).unwrap();
    // by its name, as a folder above may have many files
    assert!(Checkpoint::open_tower(below.join("a.gguf")).unwrap().is_none());
    fs::copy(fixture("gemma3/mmproj.gguf"), folder.path().join("mmproj-F16.gguf")).unwrap();
    assert!(Checkpoint::open_tower(below.join("a.gguf")).unwrap().is_some());
}

#[test]
fn towers_that_no_file_can_have_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let copy = |family: &str| {
        for name in
            ["config.json", "model.safetensors", "preprocessor_config.json", "tokenizer.json"]
        {
            fs::copy(fixture(family).join(name), folder.path().join(name)).unwrap();
        }
    };
    let change = |name: &str, from: &str, to: &str| {
        let path = folder.path().join(name);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(&path, text.replace(from, to)).unwrap();
    };
    let refused = || Checkpoint::open_tower_file(folder.path()).unwrap_err().to_string();
    copy("gemma3");
    change("preprocessor_config.json", "image_mean", "image_middle");
    assert!(refused().contains("clip.vision.image_mean"), "{}", refused());
    change("preprocessor_config.json", "\"image_std\": [", "\"image_std\": [1e99,");
    assert!(refused().contains("three numbers"), "{}", refused());
    copy("gemma4");
    change("config.json", "\"patch_size\": 4", "\"patch_size\": 2147483648");
    assert!(refused().contains("2^31 - 1"), "{}", refused());
    copy("qwen2-vl");
    change("config.json", "\"mlp_ratio\": 1", "\"mlp_ratio\": 1e30");
    assert!(refused().contains("mlp_ratio"), "{}", refused());
    fs::remove_file(folder.path().join("preprocessor_config.json")).unwrap();
    copy("mistral3");
    fs::remove_file(folder.path().join("preprocessor_config.json")).unwrap();
    assert!(refused().contains("preprocessor_config.json"), "{}", refused());
}
