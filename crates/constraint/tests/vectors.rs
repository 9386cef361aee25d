//! llama.cpp's cases of grammars, and the JSON Schema Test Suite.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panic")]

mod common;

use pelton_constraint::{Compiler, Constraint};
use serde_json::Value;

/// Strings of llama.cpp's cases on which the standard decides otherwise: JSON Schema's objects are
/// open, an integer may have any number of digits and a fraction of zeros, the order of members is
/// free where a schema lists no property.
const DEPARTURES: &str = include_str!("grammar-departures.txt");

#[test]
fn llama_cpp_cases() {
    let Some(text) = common::data("vectors/test-grammar-integration.json") else { return };
    let cases: Vec<Value> = serde_json::from_str(&text).unwrap();
    let compiler = Compiler::of_bytes().unwrap();
    let (mut strings, mut found) = (0, Vec::new());
    for case in &cases {
        let (name, input) = (case["name"].as_str().unwrap(), case["input"].as_str().unwrap());
        let constraint = match case["kind"].as_str().unwrap() {
            "gbnf" => Constraint::Gbnf(input.to_owned()),
            _ => Constraint::JsonSchema(serde_json::from_str(input).unwrap()),
        };
        let matcher = match compiler.compile(&constraint) {
            Ok(matcher) => matcher,
            Err(error) => {
                found.push(format!("{name}\trefused\t{error}"));
                continue;
            }
        };
        for (list, expected) in [("pass", true), ("fail", false)] {
            for text in case[list].as_array().unwrap() {
                strings += 1;
                let text = text.as_str().unwrap();
                if matcher.copy().accepts(text.as_bytes()).unwrap_or(false) != expected {
                    found.push(format!("{name}\t{list}\t{text:?}"));
                }
            }
        }
    }
    common::compare(&found, DEPARTURES, "grammar-departures.txt");
    assert!(strings > 300, "{strings}");
}

/// The judgements of the suite, draft 2020-12, on every schema that compiles.
#[test]
fn json_schema_test_suite() {
    let compiler = Compiler::of_bytes().unwrap();
    let mut found = Vec::new();
    let mut counts = [0usize; 3];
    for folder in ["json-schema/draft2020-12", "json-schema/draft2020-12/optional/format"] {
        let Some(files) = common::folder(folder) else { return };
        for file in files {
            let groups: Vec<Value> =
                serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
            let stem = file.file_stem().unwrap().to_string_lossy().into_owned();
            for group in &groups {
                let mut schema = group["schema"].clone();
                // it names the draft, which is the only one here
                if let Value::Object(map) = &mut schema {
                    map.shift_remove("$schema");
                }
                let tests = group["tests"].as_array().unwrap();
                let name = format!("{stem}\t{}", group["description"].as_str().unwrap());
                let matcher = match compiler.compile(&Constraint::JsonSchema(schema)) {
                    Ok(matcher) => matcher,
                    Err(error) => {
                        counts[2] += tests.len();
                        let error = error.to_string();
                        assert!(!error.is_empty() && error.lines().count() == 1, "{error}");
                        continue;
                    }
                };
                for test in tests {
                    let text = test["data"].to_string();
                    let accepts = matcher.copy().accepts(text.as_bytes()).unwrap_or(false);
                    if accepts == test["valid"].as_bool().unwrap() {
                        counts[0] += 1;
                    } else {
                        counts[1] += 1;
                        let kind = if accepts { "accepted" } else { "rejected" };
                        found.push(format!("{name}\t{kind}\t{text}"));
                    }
                }
            }
        }
    }
    println!("judged as the suite {}, otherwise {}, refused {}", counts[0], counts[1], counts[2]);
    common::compare(&found, include_str!("schema-disagreements.txt"), "schema-disagreements.txt");
    assert!(counts[0] > 900 && counts[1] < 60, "{counts:?}");
}
