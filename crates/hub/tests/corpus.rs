//! The inputs that fuzzing begins with and found worth keeping, run on stable Rust:
//! `fuzz/seeds/hub`.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::{fs, path::Path};

#[test]
fn seeds_of_hub() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/hub");
    let (mut all, mut accepted) = (0, 0);
    for entry in fs::read_dir(folder).unwrap() {
        all += 1;
        accepted +=
            usize::from(pelton_hub::untrusted::exercise(&fs::read(entry.unwrap().path()).unwrap()));
    }
    assert!(all > 20 && accepted > 10, "{accepted} of {all} are accepted");
}
