//! Pictures on the command line. The answers are those of transformers (`models/vision/verify.py`).

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{fixture, json, pelton, stdout};

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/vision/samples")
}

fn answers() -> serde_json::Value {
    serde_json::from_str(&fs::read_to_string(samples().join("answers.json")).unwrap()).unwrap()
}

fn said(args: &[&str]) -> (String, String) {
    let output = pelton().args(args).args(["--temperature", "0"]).output().unwrap();
    (stdout(&output), String::from_utf8(output.stderr).unwrap())
}

/// A sample of each task; without a model it is the built-in one that sees.
#[test]
fn run_answers_about_a_picture() {
    let answers = answers();
    for sample in &answers["pictures"].as_array().unwrap()[..16] {
        let path = samples().join(sample["file"].as_str().unwrap());
        let asked = sample["asked"].as_str().unwrap();
        let (text, _) = said(&["run", "--image", path.to_str().unwrap(), asked]);
        assert_eq!(text.trim_end(), sample["answer"], "{asked}");
    }
    let pair = &answers["pairs"][0];
    let paths = [0, 1].map(|i| samples().join(pair["files"][i].as_str().unwrap()));
    let both = paths.map(|path| path.display().to_string()).join(",");
    let (text, _) = said(&["run", "--image", &both, pair["asked"].as_str().unwrap()]);
    assert_eq!(text.trim_end(), pair["answer"]);
}

#[test]
fn the_model_that_sees_has_a_name() {
    let (text, notes) = said(&["chat", "built-in-vision", "How many shapes are there?"]);
    assert_eq!(text.trim_end(), "I see no picture.");
    assert!(notes.contains("built-in-vision is a demonstration"), "{notes}");
    let shown = json(&["show", "built-in-vision", "--json"]);
    assert_eq!(
        (&shown["place"], &shown["architecture"]),
        (&"this program".into(), &"llama".into())
    );
}

/// The sizes are those of the configuration that transformers saved.
#[test]
fn towers_are_counted() {
    let directory = fixture("vision/gemma3");
    let tower = json(&["inspect", &directory, "--json"])["tower"].take();
    let expected = [
        ("layers", 2),
        ("width", 20),
        ("heads", 2),
        ("patch", 4),
        ("embedding_width", 24),
        ("picture_side", 32),
        ("picture_tokens", 4),
    ];
    assert_eq!(tower["projector"], "gemma3");
    for (key, value) in expected {
        assert_eq!(tower[key], value, "{key} of {tower}");
    }
    // llama.cpp's converter counts 8.7K
    assert_eq!(tower["parameters"].as_u64().unwrap().div_ceil(100), 87);
    assert_eq!(json(&["show", &directory, "--json"])["tower"], tower);
    let qwen = json(&["inspect", &fixture("vision/qwen2.5-vl"), "--json"])["tower"].take();
    assert!(qwen["picture_tokens"].is_null() && qwen["token_side"] == 8, "{qwen}");

    let alone = fixture("vision/gemma3/mmproj.gguf");
    let joins = serde_json::json!(["gemma3"]);
    assert_eq!(json(&["inspect", &alone, "--json"])["tower"]["joins"], joins);
    let (text, _) = said_plainly(&["inspect", &alone]);
    let line = "it belongs in the folder of a model of gemma3 with embeddings of 24";
    assert!(text.contains(line), "{text}");
    assert!(json(&["inspect", &fixture("models/gemma3"), "--json"])["tower"].is_null());

    let rates = ["--read", "10", "--multiply", "100", "--device", "cpu", "--json"];
    let memory =
        |more: &[&str]| json(&[&["plan", &directory][..], &rates, more].concat())["memory"].take();
    let (seeing, blind) = (memory(&[]), memory(&["--pictures", "off"]));
    let of = |memory: &serde_json::Value, key: &str| memory[key].as_u64().unwrap();
    assert!(of(&seeing, "tower") > 0 && of(&blind, "tower") == 0);
    assert!(of(&seeing, "total") > of(&blind, "total"), "{seeing} {blind}");
}

fn said_plainly(args: &[&str]) -> (String, String) {
    let output = pelton().args(args).output().unwrap();
    (stdout(&output), String::from_utf8(output.stderr).unwrap())
}
