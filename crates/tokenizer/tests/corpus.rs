//! The inputs that fuzzing has found worth keeping, run again: `fuzz/seeds/tokenizer_json`.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "common/exercise.rs"]
mod exercise;

use std::fs;
use std::path::Path;

#[test]
fn seeds_of_tokenizer_json() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/tokenizer_json");
    let (mut all, mut valid) = (0, 0);
    for entry in fs::read_dir(folder).unwrap() {
        all += 1;
        valid += usize::from(exercise::exercise(&fs::read(entry.unwrap().path()).unwrap()));
    }
    assert!(all > 9 && valid > 4, "{valid} of {all} are tokenizers");
}
