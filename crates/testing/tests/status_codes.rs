//! The page of the server's status codes has those of the server's sources.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panic")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The sources below a folder, joined.
fn sources(folder: &Path) -> String {
    let mut all = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all += &sources(&path);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all += &fs::read_to_string(&path).unwrap();
        }
    }
    all
}

/// The words of `source` that follow `before`.
fn words<'a>(source: &'a str, before: &str) -> BTreeSet<&'a str> {
    let rests = source.split(before).skip(1);
    let word = |rest: &'a str| rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next();
    rests.filter_map(word).collect()
}

/// The reason phrase of a constant such as `NOT_FOUND`.
fn phrase(constant: &str) -> String {
    let word = |word: &str| {
        let (first, rest) = word.split_at(1);
        first.to_owned() + &rest.to_lowercase()
    };
    constant.split('_').map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_page_has_all_status_codes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let source = sources(&root.join("crates/server/src"));
    let page = fs::read_to_string(root.join("docs/status-codes.md")).unwrap();
    let constants = words(&source, "StatusCode::");
    let constants: Vec<_> =
        constants.into_iter().filter(|word| word.starts_with(|c: char| c.is_uppercase())).collect();
    assert!(constants.len() > 10, "found only {constants:?}");
    let is_there = |name: &&str| *name == "OK" || page.contains(&phrase(name));
    let absent: Vec<_> = constants.iter().filter(|name| !is_there(name)).collect();
    assert!(absent.is_empty(), "docs/status-codes.md lacks {absent:?}");
    let codes = words(&source, ".code(\"");
    assert!(codes.len() > 5, "found only {codes:?}");
    let absent: Vec<_> =
        codes.iter().filter(|code| !page.contains(&format!("| `{code}` |"))).collect();
    assert!(absent.is_empty(), "docs/status-codes.md lacks {absent:?}");
}
