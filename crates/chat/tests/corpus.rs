//! The inputs that fuzzing begins with and found worth keeping, run again: `fuzz/seeds/template`.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "common/exercise.rs"]
mod exercise;

use std::{fs, path::Path};

#[test]
fn seeds_of_templates() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/template");
    let (mut all, mut rendered) = (0, 0);
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        // one that is no UTF-8 is no input of the target
        let Ok(source) = fs::read_to_string(path) else { continue };
        all += 1;
        rendered += usize::from(exercise::exercise(&source));
    }
    assert!(all > 9 && rendered > 7, "{rendered} of {all} are rendered");
}
