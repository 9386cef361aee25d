//! Pictures on the command line. The answers are those of transformers (`models/vision/verify.py`).

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{json, pelton, stdout};

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
