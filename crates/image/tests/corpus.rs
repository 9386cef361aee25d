//! The inputs that fuzzing found worth keeping, run on stable Rust: `fuzz/seeds/picture`.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "common/exercise.rs"]
mod exercise;

use std::fs;
use std::path::Path;

#[test]
fn seeds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/picture");
    let (mut all, mut pictures) = (0, 0);
    for entry in fs::read_dir(folder).unwrap() {
        all += 1;
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        pictures += usize::from(exercise::exercise(&bytes));
    }
    assert!(all > 100 && pictures > 10, "{pictures} of {all} are pictures");
}
