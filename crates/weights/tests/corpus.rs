//! The inputs that fuzzing begins with and found worth keeping, run on stable Rust:
//! `fuzz/seeds/gguf`, `fuzz/seeds/hugging_face`, a configuration of each architecture, and
//! `fuzz/seeds/ggml`.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "common/bin_case.rs"]
mod bin_case;
#[path = "common/folder_case.rs"]
mod folder_case;

use std::fs;
use std::path::Path;

use bin_case::exercise;

#[test]
fn seeds_of_gguf() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/gguf");
    let (mut all, mut models) = (0, 0);
    for entry in fs::read_dir(folder).unwrap() {
        all += 1;
        models += usize::from(exercise::exercise(fs::read(entry.unwrap().path()).unwrap()));
    }
    assert!(all > 3 && models > 0, "{models} of {all} are models");
}

#[test]
fn seeds_of_ggml() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/ggml");
    let (mut all, mut models) = (0, 0);
    for entry in fs::read_dir(folder).unwrap() {
        all += 1;
        models += usize::from(bin_case::read_case(&fs::read(entry.unwrap().path()).unwrap()));
    }
    assert!(all > 3 && models > 0, "{models} of {all} are models");
}

#[test]
fn seeds_of_hugging_face() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/hugging_face");
    let (mut all, mut models) = (0, 0);
    for entry in fs::read_dir(folder).unwrap() {
        all += 1;
        models += usize::from(folder_case::read_case(&fs::read(entry.unwrap().path()).unwrap()));
    }
    assert!(all > 50 && models > 40, "{models} of {all} are models");
}
