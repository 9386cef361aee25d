//! `pelton imatrix`, compared with sums that `crates/cli/tests/fixtures/make_importance.py`
//! computed with transformers in f64.

use std::fs;

use pelton::{Checkpoint, weights::Importance};
use serde_json::Value;

use super::{fixture, json, refused, run, stdout, temporary};

/// A file that the script makes.
fn own(name: &str) -> String {
    format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn new_file(name: &str) -> String {
    let path = temporary(name);
    let _ = fs::remove_file(&path);
    path.to_str().unwrap().to_owned()
}

fn numbers(values: &Value) -> Vec<f64> {
    values.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

/// Sums and counts of dense matrices and of experts, in the layout of llama.cpp's files.
#[test]
fn sums_are_those_of_transformers() {
    let all: Value =
        serde_json::from_str(&fs::read_to_string(own("importance.json")).unwrap()).unwrap();
    let text = own("importance.txt");
    for name in ["llama3", "mixtral"] {
        let (model, file) = (
            fixture(&format!("models/{name}/model.gguf")),
            new_file(&format!("imatrix-{name}.gguf")),
        );
        let said = json(&["imatrix", &model, &text, "-o", &file, "--context", "16", "--json"]);
        let expected = all[name].as_object().unwrap();
        let found = Checkpoint::open(&file).unwrap();
        let metadata = found.metadata();
        assert_eq!(metadata.string("general.type").unwrap(), "imatrix");
        assert_eq!(metadata.opt_usize("imatrix.chunk_size").unwrap(), Some(16));
        let windows = metadata.opt_usize("imatrix.chunk_count").unwrap();
        assert_eq!(windows, said["windows"].as_u64().map(|n| n as usize));
        assert_eq!(said["tensors"], expected.len());
        assert_eq!(found.tensors().count(), 2 * expected.len(), "{name}");
        for (tensor, expected) in expected {
            let counts = found.tensor(&format!("{tensor}.counts")).unwrap();
            assert_eq!(counts.shape, [1, numbers(&expected["counts"]).len()], "{tensor}");
            let counts = counts.decode().into_iter().map(f64::from).collect::<Vec<_>>();
            assert_eq!(counts, numbers(&expected["counts"]), "{tensor}");
            let (sums, expected) =
                (found.tensor(&format!("{tensor}.in_sum2")), numbers(&expected["sums"]));
            let sums = sums.unwrap().decode();
            assert_eq!(sums.len(), expected.len(), "{tensor}");
            for (found, expected) in sums.iter().zip(&expected) {
                let far = (f64::from(*found) - expected).abs();
                assert!(far <= 1e-3 * expected + 1e-5, "{tensor}: {found}, expected {expected}");
            }
        }
        // quantization reads it
        assert_eq!(Importance::open(&file).unwrap().len(), expected.len());
        let quantized = new_file(&format!("imatrix-{name}-q4_0.gguf"));
        stdout(&run(&["quantize", &model, &quantized, "q8_0", "--imatrix", &file]));
    }
}

/// Files that cannot be read or written are refused, and nothing is left.
#[test]
fn refusals() {
    let text = own("importance.txt");
    let file = new_file("imatrix-mine.gguf");
    fs::write(&file, "mine").unwrap();
    let said = refused(&["imatrix", "built-in", &text, "-o", &file], 1);
    assert!(said.contains("exists already, expected another name or --force"), "{said}");
    assert_eq!(fs::read(&file).unwrap(), b"mine");
    let other = new_file("imatrix-other.gguf");
    let said = refused(&["imatrix", "built-in", &text, "-o", &other, "--context", "1000"], 1);
    assert!(said.contains("expected at least one window of 1000"), "{said}");
    let encoder = fixture("models/bert/model.gguf");
    let said = refused(&["imatrix", &encoder, &text, "-o", &other, "--context", "16"], 1);
    assert!(said.contains("computes no logits"), "{said}");
    assert!(!fs::exists(&other).unwrap());
}
