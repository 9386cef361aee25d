//! The tables of docs/models.md about other projects' models, compared with what is read here.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use pelton::Checkpoint;
use pelton::graph::architectures;
use serde_json::{Value, json};

fn file(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(name)).unwrap()
}

/// The rows of the table after a heading of docs/models.md: a name, and whether it is read.
fn rows(heading: &str) -> Vec<(String, bool)> {
    let document = file("docs/models.md");
    let (_, section) = document.split_once(&format!("\n{heading}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let cells = |line: &str| -> Option<(String, bool)> {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let (name, state) = (cells.next()?, cells.next()?.trim_end_matches(" |"));
        match state {
            "yes" => Some((name.to_owned(), true)),
            "no" => Some((name.to_owned(), false)),
            _ => None,
        }
    };
    section.lines().filter_map(cells).collect()
}

/// Architectures whose models only directories hold.
const WITHOUT_FILES: &[&str] =
    &["axk1", "flex_olmo", "flint", "hyperclovax", "nanochat", "vaultgemma"];

fn peers() -> Value {
    serde_json::from_str(&file("tests/fixtures/peers.json")).unwrap()
}

#[test]
fn the_document_has_the_architectures_of_llama_cpp() {
    let rows = rows("## Architectures of llama.cpp");
    let own: BTreeSet<_> = architectures().iter().map(|arch| arch.name).collect();
    let peers = peers();
    let all: Vec<_> =
        peers["llama.cpp"].as_array().unwrap().iter().map(|name| name.as_str()).collect();
    assert_eq!(all, rows.iter().map(|(name, _)| Some(name.as_str())).collect::<Vec<_>>());
    for (name, is_read) in &rows {
        assert_eq!(own.contains(name.as_str()), *is_read, "{name}");
    }
    for name in own {
        let is_listed = rows.iter().any(|(row, _)| row == name);
        assert_eq!(is_listed, !WITHOUT_FILES.contains(&name), "{name}");
    }
}

/// Whether a directory with this configuration is of a known family.
fn is_known(config: &Value) -> bool {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let error = Checkpoint::open(folder.path()).unwrap_err().to_string();
    !error.contains("is not supported; docs/models.md")
}

#[test]
fn the_document_has_the_classes_of_transformers() {
    let rows = rows("## Causal models of transformers");
    let peers = peers();
    let types = peers["transformers"].as_object().unwrap();
    assert_eq!(types.len(), rows.len());
    for (name, is_read) in rows {
        let class = types[&name].as_str();
        let of_class = class.is_some_and(|class| is_known(&json!({ "architectures": [class] })));
        let known = of_class || is_known(&json!({ "model_type": name }));
        assert_eq!(known, is_read, "{name}");
    }
}
