//! The size of the committed fixtures, which everybody who clones the repository downloads.

#![allow(clippy::unwrap_used, reason = "a test fails by panic")]

use std::fs;
use std::path::{Path, PathBuf};

/// The greatest size of a file, in bytes.
const MAX_FILE: u64 = 300_000;
/// The greatest size of all files together, in bytes.
const MAX_ALL: u64 = 40_000_000;

/// Sizes of all files below `folder`, in bytes, except of what Python caches.
fn sizes(folder: &Path, sizes_of: &mut Vec<(u64, PathBuf)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if !path.is_dir() {
            sizes_of.push((path.metadata().unwrap().len(), path));
        } else if path.file_name().is_none_or(|name| name != "__pycache__") {
            sizes(&path, sizes_of);
        }
    }
}

#[test]
fn sizes_of_fixtures() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    let mut files = Vec::new();
    sizes(&folder, &mut files);
    assert!(files.len() > 500, "{} files", files.len());
    let large: Vec<_> = files.iter().filter(|(size, _)| *size > MAX_FILE).collect();
    assert!(large.is_empty(), "files of more than {MAX_FILE} bytes: {large:?}");
    let all: u64 = files.iter().map(|(size, _)| size).sum();
    assert!(all <= MAX_ALL, "{all} bytes, expected at most {MAX_ALL}");
}
