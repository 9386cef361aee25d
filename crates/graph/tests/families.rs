//! Plans of the tiny models of all families under `tests/fixtures/models`, which llama.cpp's
//! converter wrote.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

use std::fs;
use std::path::{Path, PathBuf};

use pelton_graph::{Plan, build};
use pelton_weights::{Checkpoint, Problem};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models")
}

#[test]
fn every_model_has_a_plan() {
    let mut failed = String::new();
    let mut count = 0;
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path().join("model.gguf");
        if !path.is_file() {
            continue;
        }
        match Checkpoint::open(&path) {
            Ok(checkpoint) => {
                count += 1;
                if let Err(error) = build(&checkpoint) {
                    failed += &format!("{error}\n");
                }
            }
            // a format of weights is no matter of this crate
            Err(error) => assert!(matches!(error.problem(), Problem::DType { .. }), "{error}"),
        }
    }
    assert!(failed.is_empty(), "{failed}");
    assert!(count > 50, "{count}");
}
