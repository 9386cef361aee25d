//! The inputs that fuzzing begins with and found worth keeping, run on stable Rust:
//! `fuzz/seeds/decode`.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "common/exercise.rs"]
mod exercise;

use std::fs;
use std::path::Path;

#[test]
fn seeds() {
    exercise::quiet();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/decode");
    let (mut all, mut audio) = (0, 0);
    for entry in fs::read_dir(folder).unwrap() {
        all += 1;
        audio += usize::from(exercise::exercise(&fs::read(entry.unwrap().path()).unwrap()));
    }
    assert!(all > 20 && audio > 10, "{audio} of {all} are audio");
}
