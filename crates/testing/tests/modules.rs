//! The structure of all crates: imports between modules in one direction only, small files.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panic")]

#[path = "modules/circles.rs"]
mod circles;
#[path = "modules/finder.rs"]
mod finder;
#[path = "modules/tree.rs"]
mod tree;

use std::fs;
use std::path::{Path, PathBuf};

use circles::circles;
use tree::Sources;

/// The longest source file that is accepted, in lines.
const MAX_LINES: usize = 600;

fn crates() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let entries = ["crates", "bindings"].map(|folder| fs::read_dir(root.join(folder)).unwrap());
    let paths = entries.into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut crates: Vec<_> = paths.filter(|path| path.join("Cargo.toml").is_file()).collect();
    crates.sort();
    crates
}

/// Calls `each` for every file below `folder`, except in build outputs and test fixtures.
fn walk(folder: &Path, each: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if !path.is_dir() {
            each(&path);
        } else if !matches!(&*name, "target" | "fixtures") {
            walk(&path, each);
        }
    }
}

fn sources(folder: &Path) -> Sources {
    let mut sources = Sources::new();
    walk(folder, &mut |path| {
        if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(folder).unwrap().to_string_lossy().replace('\\', "/");
            sources.insert(name, fs::read_to_string(path).unwrap());
        }
    });
    sources
}

#[test]
fn imports_have_no_circles() {
    let mut found = String::new();
    let mut modules = 0;
    for folder in crates() {
        let sources = sources(&folder.join("src"));
        modules += sources.len();
        for circle in circles(&sources) {
            found += &format!("\n{}: {circle}", folder.file_name().unwrap().display());
        }
    }
    assert!(modules > 50, "found only {modules} source files");
    assert!(found.is_empty(), "modules import each other in circles:{found}");
}

#[test]
fn files_are_small() {
    let mut long = String::new();
    for folder in crates() {
        walk(&folder, &mut |path| {
            let extension = path.extension().and_then(|extension| extension.to_str());
            if !matches!(extension, Some("rs" | "wgsl")) {
                return;
            }
            let lines = fs::read_to_string(path).unwrap().lines().count();
            if lines > MAX_LINES {
                long += &format!("\n{}: {lines} lines", path.display());
            }
        });
    }
    assert!(long.is_empty(), "files of more than {MAX_LINES} lines:{long}");
}
