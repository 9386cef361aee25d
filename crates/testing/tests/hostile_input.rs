//! The tests that `docs/hostile-input.md` names exist.

#![allow(clippy::unwrap_used, reason = "a test fails by panic")]

use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => sources(&path, found),
            false if path.extension().is_some_and(|end| end == "rs") => found.push(path),
            false => {}
        }
    }
}

#[test]
fn tests_that_the_page_names_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/hostile-input.md")).unwrap();
    let mut files = Vec::new();
    for entry in fs::read_dir(root.join("crates")).unwrap() {
        let tests = entry.unwrap().path().join("tests");
        if tests.is_dir() {
            sources(&tests, &mut files);
        }
    }
    let rows = page.lines().filter(|line| line.starts_with("| ")).skip(1);
    let mut named = 0;
    for row in rows {
        let tests = row.trim_end_matches('|').rsplit('|').next().unwrap();
        let tests: Vec<&str> = tests.split('`').filter(|part| part.contains("::")).collect();
        assert!(!tests.is_empty(), "no test is named as `file::function`: {row}");
        for test in tests {
            let (file, function) = test.split_once("::").unwrap();
            let is_there = |path: &&PathBuf| {
                path.file_stem().is_some_and(|stem| stem == file)
                    && fs::read_to_string(path).unwrap().contains(&format!("\nfn {function}()"))
            };
            assert!(files.iter().find(is_there).is_some(), "{test} is no test: {row}");
            named += 1;
        }
    }
    assert!(named > 20, "{named}");
}
