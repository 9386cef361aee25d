//! The header: made from the sources, valid C and C++, and equal to what the library exports.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

mod common;
#[path = "common/prototypes.rs"]
mod prototypes;

use std::{collections::BTreeSet, fs, process::Command};

use common::{STRICT, Workshop, folder, has, library, run};
use prototypes::functions;

/// The sources in the order of the header.
const SOURCES: [&str; 24] = [
    "status",
    "callback",
    "error",
    "error_calls",
    "library",
    "log",
    "text",
    "options",
    "engine",
    "model",
    "model_facts",
    "tensors",
    "tokens",
    "grammar",
    "chat",
    "request",
    "token",
    "stream",
    "generate",
    "embed",
    "rerank",
    "session",
    "transcription",
    "live",
];

fn generated() -> String {
    let mut builder = cbindgen::Builder::new()
        .with_config(cbindgen::Config::from_file(folder("cbindgen.toml")).unwrap());
    for name in SOURCES {
        builder = builder.with_src(folder("src").join(format!("{name}.rs")));
    }
    let mut header = Vec::new();
    builder.generate().unwrap().write(&mut header);
    String::from_utf8(header).unwrap()
}

fn committed() -> String {
    fs::read_to_string(folder("include/pelton.h")).unwrap()
}

/// The names of the header's functions.
fn declared() -> BTreeSet<String> {
    functions(&committed()).into_iter().map(|function| function.name).collect()
}

#[test]
fn the_header_is_that_of_the_sources() {
    let new = generated();
    if std::env::var_os("PELTON_WRITE").is_some() {
        fs::write(folder("include/pelton.h"), &new).unwrap();
    }
    assert!(
        new == committed(),
        "include/pelton.h is old: PELTON_WRITE=1 cargo test -p pelton-capi --test header"
    );
}

/// A source whose functions the header lacks would not be seen otherwise.
#[test]
fn the_header_has_every_exported_function_of_the_sources() {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder("src")).unwrap() {
        let source = fs::read_to_string(entry.unwrap().path()).unwrap();
        let parts = source.split("#[unsafe(no_mangle)]").skip(1);
        found.extend(parts.map(|part| {
            let from = part.split_once("fn ").unwrap().1;
            from.split_once('(').unwrap().0.to_owned()
        }));
    }
    assert_eq!(found, declared());
    assert!(found.len() > 45, "{found:?}");
}

#[test]
fn the_library_exports_the_header_and_nothing_else() {
    if !cfg!(target_os = "linux") || !has("nm") {
        return;
    }
    let symbols = run(Command::new("nm").args(["-D", "--defined-only"]).arg(library()));
    let exported: BTreeSet<String> =
        symbols.lines().filter_map(|line| line.split(' ').nth(2)).map(str::to_owned).collect();
    assert_eq!(exported, declared());
}

#[test]
fn the_header_compiles_as_c_and_as_cpp() {
    let Some(workshop) = Workshop::open() else { return };
    let text = "#include \"pelton.h\"\n#include \"pelton.h\"\nint unused(void);\n";
    let (c, cpp) = (workshop.source("header.c", text), workshop.source("header.cpp", text));
    for (compiler, standard, source) in [
        ("gcc", "-std=c99", &c),
        ("gcc", "-std=c17", &c),
        ("g++", "-std=c++17", &cpp),
        ("g++", "-std=c++20", &cpp),
    ] {
        let mut command = Command::new(compiler);
        command.args([standard, "-fsyntax-only"]);
        run(command.args(STRICT).arg("-I").arg(folder("include")).arg(source));
    }
}
