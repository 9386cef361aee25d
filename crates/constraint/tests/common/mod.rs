//! Data from outside, and lists of departures from it.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use pelton_testing::{Need, skip};

/// A file or folder of the test data; the test is skipped where it is absent.
pub(crate) fn find(path: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(path);
    if path.exists() {
        return Some(path);
    }
    skip(Need::Data, format_args!("no {}", path.display()));
    None
}

/// The text of a file of the test data.
pub(crate) fn data(path: &str) -> Option<String> {
    let file = find(path)?;
    Some(std::fs::read_to_string(file).unwrap())
}

/// The JSON files of a folder of the test data, in order.
pub(crate) fn folder(path: &str) -> Option<Vec<PathBuf>> {
    let folder = find(path)?;
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    Some(files)
}

/// Compares what was found with a committed list: lines that begin with `#` are reasons.
pub(crate) fn compare(found: &[String], list: &str, name: &str) {
    let listed: BTreeSet<&str> =
        list.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
    let found: BTreeSet<&str> = found.iter().map(String::as_str).collect();
    let lines = |all: Vec<&&str>| all.into_iter().copied().collect::<Vec<_>>().join("\n");
    let (new, gone) =
        (lines(found.difference(&listed).collect()), lines(listed.difference(&found).collect()));
    assert!(
        new.is_empty() && gone.is_empty(),
        "found, but not in {name}:\n{new}\nin {name}, but not found:\n{gone}"
    );
}
