//! The prose of documents and comments: short sentences that begin with their subject, and links
//! that lead to files.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panic")]

#[path = "prose/comments.rs"]
mod comments;
#[path = "prose/markdown.rs"]
mod markdown;
#[path = "prose/sentences.rs"]
mod sentences;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use sentences::{CODE, fault, sentences, words};

/// The columns that rustfmt has for code, and a comment too.
const COLUMNS: usize = 100;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The files below `folder` with one of `extensions`, except in build outputs, test fixtures and
/// linked folders.
fn files(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            let name = entry.file_name();
            if !matches!(
                &*name.to_string_lossy(),
                "target" | "fixtures" | "node_modules" | "results"
            ) {
                found.extend(files(&path, extensions));
            }
        } else if path.extension().is_some_and(|found| extensions.iter().any(|e| found == *e)) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The files and folders below `folder`, except in build outputs and linked folders.
fn everything(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        if !matches!(&*name.to_string_lossy(), ".git" | "target" | "node_modules") {
            if entry.file_type().unwrap().is_dir() {
                found.extend(everything(&entry.path()));
            }
            found.push(entry.path());
        }
    }
    found
}

/// The faults of the sentences of a document, a line each.
fn faults(document: &str) -> Vec<String> {
    let blocks = markdown::blocks(document);
    let all = blocks.iter().flat_map(|block| sentences(block));
    let fault = |sentence: &str| {
        fault(sentence).map(|fault| format!("{fault}: {}", sentence.replace(CODE, "`…`")))
    };
    all.filter_map(fault).collect()
}

/// The mean words of a document's sentences.
fn mean_words(document: &str) -> f64 {
    let blocks = markdown::blocks(document);
    let lengths: Vec<usize> = blocks.iter().flat_map(|b| sentences(b)).map(words).collect();
    lengths.iter().sum::<usize>() as f64 / lengths.len().max(1) as f64
}

#[test]
fn links_lead_to_files() {
    let root = root();
    let mut found = String::new();
    let mut count = 0;
    for path in files(&root, &["md"]) {
        let folder = path.parent().unwrap();
        let document = fs::read_to_string(&path).unwrap();
        for (target, fragment) in markdown::links(&document) {
            count += 1;
            let name = path.strip_prefix(&root).unwrap().display();
            let file = if target.is_empty() { path.clone() } else { folder.join(&target) };
            if !file.exists() {
                found += &format!("\n{name}: {target} does not exist");
            } else if !fragment.is_empty() && file.extension().is_some_and(|e| e == "md") {
                let fragments = markdown::fragments(&fs::read_to_string(&file).unwrap());
                if !fragments.contains(&fragment) {
                    found += &format!("\n{name}: {target} has no heading #{fragment}");
                }
            }
        }
    }
    assert!(count > 20, "found only {count} links");
    assert!(found.is_empty(), "links that lead nowhere:{found}");
}

/// Paths in code spans are those of files here, or ends of such paths. CHANGELOG.md names files of
/// the past.
#[test]
fn paths_in_documents_exist() {
    let root = root();
    let mut ends = BTreeSet::new();
    for path in everything(&root) {
        let path = path.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
        let starts = std::iter::once(0).chain(path.match_indices('/').map(|(at, _)| at + 1));
        ends.extend(starts.map(|start| path[start..].to_owned()));
    }
    let mut found = String::new();
    let mut count = 0;
    for path in files(&root, &["md"]).into_iter().filter(|path| !path.ends_with("CHANGELOG.md")) {
        let name = path.strip_prefix(&root).unwrap().display();
        for code in markdown::paths(&fs::read_to_string(&path).unwrap()) {
            count += 1;
            if !ends.contains(code.trim_end_matches('/')) {
                found += &format!("\n{name}: {code} is not the end of a file's path");
            }
        }
    }
    assert!(count > 200, "found only {count} paths");
    assert!(found.is_empty(), "paths that do not exist:{found}");
}

/// Each index links the pages of its folder.
#[test]
fn indexes_have_all_pages() {
    let root = root();
    let mut found = String::new();
    for folder in ["docs", "docs/notes"] {
        let folder = root.join(folder);
        let index = fs::read_to_string(folder.join("README.md")).unwrap();
        let linked: Vec<_> = markdown::links(&index).into_iter().map(|(path, _)| path).collect();
        for entry in fs::read_dir(&folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".md") && name != "README.md" && !linked.contains(&name) {
                found += &format!("\n{}: {name} is not linked", folder.display());
            }
        }
    }
    assert!(found.is_empty(), "indexes lack pages:{found}");
}

#[test]
fn documents_have_short_sentences() {
    let root = root();
    let mut documents = vec![(root.join("ARCHITECTURE.md"), 20.0)];
    let others = ["README.md", "CONTRIBUTING.md"].map(|name| root.join(name));
    let others = others.into_iter().chain(files(&root.join("docs"), &["md"]));
    documents.extend(others.map(|path| (path, 17.0)));
    let mut found = String::new();
    for (path, mean_max) in documents {
        let document = fs::read_to_string(&path).unwrap();
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        let mean = mean_words(&document);
        if mean > mean_max {
            found +=
                &format!("\n{name}: {mean:.1} words a sentence, at most {mean_max} are allowed");
        }
        for fault in faults(&document) {
            found += &format!("\n{name}: a sentence {fault}");
        }
    }
    assert!(found.is_empty(), "sentences to be rewritten:{found}");
}

#[test]
fn comments_have_short_sentences() {
    let root = root();
    let mut found = String::new();
    let mut count = 0;
    for path in files(&root.join("crates"), &["rs", "wgsl"]) {
        let source = fs::read_to_string(&path).unwrap();
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        for comment in comments::comments(&source) {
            count += 1;
            for fault in faults(&comment.text) {
                found += &format!("\n{name}:{}: a sentence {fault}", comment.line);
            }
        }
    }
    assert!(count > 5000, "found only {count} comments");
    assert!(found.is_empty(), "comments to be rewritten:{found}");
}

#[test]
fn comments_are_narrow() {
    let root = root();
    let mut found = String::new();
    for path in files(&root, &["rs"]) {
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        let source = fs::read_to_string(&path).unwrap();
        for line in wide_comments(&source) {
            found += &format!("\n{name}:{line}");
        }
    }
    assert!(found.is_empty(), "comments wider than {COLUMNS} columns:{found}");
}

/// The lines of comments that are too wide, except for tables, code, and words that cannot be
/// broken.
fn wide_comments(source: &str) -> Vec<usize> {
    let mut is_code = false;
    let mut found = Vec::new();
    for (number, line) in (1..).zip(source.lines()) {
        let Some(text) = line.trim_start().strip_prefix("//") else {
            is_code = false;
            continue;
        };
        let text = text.trim_start_matches(['/', '!']).trim_start();
        is_code ^= text.starts_with("```");
        let breaks =
            text.trim_start_matches("- ").split('`').step_by(2).any(|part| part.contains(' '));
        if line.chars().count() > COLUMNS && !is_code && !text.starts_with('|') && breaks {
            found.push(number);
        }
    }
    found
}

#[test]
fn wide_comments_are_found() {
    let long = "word ".repeat(25);
    let code = format!("`{}`", "x ".repeat(60));
    let source = format!(
        "// {long}\n/// | {long} |\n//! - {code}\n//! ```\n//! {long}\n//! ```\n//! {long}\nlet a = 1; // {long}\n"
    );
    assert_eq!(wide_comments(&source), [1, 7]);
}

#[test]
fn offending_sentences_are_found() {
    let long = format!("The words{} are many.", " and words".repeat(17));
    let cases = [
        ("Of all formats it reads two.", "begins with \"of\""),
        ("It reads. With a GPU it is fast.", "begins with \"with\""),
        ("- An item.\n- What follows is an item, too.", "begins with \"what\""),
        ("(That it is slow is known.)", "begins with \"that\""),
        ("> **With** emphasis, in a quotation.", "begins with \"with\""),
        ("The call `load()`. Of it nothing is left.", "begins with \"of\""),
        ("Rows of a pass, at most; it has one.", "has \", at most\""),
        (&long, "has 38 words"),
    ];
    for (document, expected) in cases {
        let found = faults(document);
        assert!(matches!(&found[..], [one] if one.starts_with(expected)), "{document}: {found:?}");
    }
    assert!(
        (mean_words("One two three. Four five?\n\n- Six [seven](<of/eight nine>).") - 7.0 / 3.0)
            .abs()
            < 1e-9
    );
}

#[test]
fn what_is_no_sentence_is_skipped() {
    let document = "# Of headings\n\n```text\nOf code.\n```\n\n| Of | tables |\n|---|---|\n| With | cells |\n\n\
        It costs 1.5 s, e.g. with a disk. Read [this](What.md), of 24. Nov.\n\n    That is indented code.\n";
    assert_eq!(faults(document), Vec::<String>::new());
    assert_eq!(
        markdown::links("[a](b.md#c), ![d](e/f.svg), [g](https://h), [i](#j)"),
        [("b.md", "c"), ("e/f.svg", ""), ("", "j")].map(|(a, b)| (a.to_owned(), b.to_owned()))
    );
    assert_eq!(
        markdown::paths(
            "`a/b.rs` [`c.sh`](d), `crates/e/`, `crates/E/NAME.rs`, `a/b`, `b.json`, `x.rs y`"
        ),
        ["a/b.rs", "c.sh", "crates/e/"]
    );
    assert_eq!(markdown::fragments("# A b\n\nText.\n\n## `C`-d: e, F_g\n"), ["a-b", "c-d-e-f_g"]);
    let found: Vec<_> = markdown::blocks("A `b c` d. `E` f.\nG. H?\n\n- I.")
        .concat()
        .split(' ')
        .map(str::to_owned)
        .collect();
    assert_eq!(found, ["A", "\u{fffc}", "d.", "\u{fffc}", "f.", "G.", "H?I."]);
    assert_eq!(sentences("A b. C (d.) E? \u{fffc} f"), ["A b.", "C (d.)", "E?", "\u{fffc} f"]);
}

#[test]
fn comments_are_told_from_code() {
    let source = "//! One,\n//! two.\n/// Three\nlet a = \"// no\"; // four\n// five\n//\n// six\n\
        let b = (r#\"\"// no\"#, '\"', '\\'', &'a x); // seven\n/* // no */ let user = 1; // eight\n";
    let found = comments::comments(source);
    let found: Vec<_> = found.iter().map(|c| (c.line, c.text.as_str())).collect();
    let expected = [
        (1, " One,\n two."),
        (3, " Three"),
        (4, " four"),
        (5, " five\n\n six"),
        (8, " seven"),
        (9, " eight"),
    ];
    assert_eq!(found, expected);
}
