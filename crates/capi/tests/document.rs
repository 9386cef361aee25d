//! docs/c.md names every function and option, and no function that does not exist.

#![allow(clippy::unwrap_used, reason = "tests fail by panic")]

mod common;
#[path = "common/prototypes.rs"]
mod prototypes;

use std::{collections::BTreeSet, fs};

use common::{folder, repository};
use prototypes::functions;

/// The words in code of the document, without its blocks of code.
fn words(document: &str) -> BTreeSet<&str> {
    let mut is_block = false;
    let lines = document.lines().filter(|line| {
        let is_fence = line.starts_with("```");
        is_block ^= is_fence;
        !is_block && !is_fence
    });
    lines.flat_map(|line| line.split('`').skip(1).step_by(2)).collect()
}

#[test]
fn the_document_has_every_function_and_option() {
    let document = fs::read_to_string(repository("docs/c.md")).unwrap();
    let found = words(&document);
    let header = fs::read_to_string(folder("include/pelton.h")).unwrap();
    let declared: BTreeSet<String> =
        functions(&header).into_iter().map(|function| function.name).collect();
    for name in &declared {
        assert!(found.contains(&**name), "docs/c.md lacks {name}");
    }
    let library = fs::read_to_string(repository("docs/library.md")).unwrap();
    let of_loads = words(&library);
    for (group, names) in pelton_capi::names() {
        for name in names {
            let is_there = found.contains(name) || group == "load" && of_loads.contains(name);
            assert!(is_there, "docs/c.md lacks {name} of {group}");
        }
    }
    let functions =
        found.iter().filter(|name| name.starts_with("pelton_") && **name != "pelton_text");
    for name in functions {
        assert!(declared.contains(*name), "docs/c.md names {name}, which the header lacks");
    }
}

/// The table answers all functions of the interface that it names.
#[test]
fn the_table_has_all_functions_of_the_other_interface() {
    let document = fs::read_to_string(repository("docs/c.md")).unwrap();
    let table = document.split_once("## From Akunu").unwrap().1.split_once("## Tests").unwrap().0;
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let names: Vec<&str> =
        rows.flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2)).collect();
    let distinct: BTreeSet<&&str> = names.iter().collect();
    assert_eq!((names.len(), distinct.len()), (41, 41));
}
