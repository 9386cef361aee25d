//! llama.cpp's cases of grammars, the JSON Schema Test Suite, and a schema with published
//! vocabularies.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panic")]

mod common;

use std::sync::Arc;

use pelton_constraint::{Compiler, Constraint};
use pelton_testing::Random;
use pelton_tokenizer::Tokenizer;
use pelton_weights::Checkpoint;
use serde_json::{Value, json};

/// Strings of llama.cpp's cases on which the standard decides otherwise. JSON Schema's objects are
/// open, an integer may have any number of digits and a fraction of zeros, and the order of members
/// is free where a schema lists no property.
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

/// The files of the suite about formats that are enforced; all others are annotations.
const FORMATS: [&str; 10] =
    ["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"];

/// The judgements of the suite, draft 2020-12, on every schema that compiles. Annotations
/// (`docs/decoding.md`) accept texts that the suite calls invalid.
#[test]
fn json_schema_test_suite() {
    let compiler = Compiler::of_bytes().unwrap();
    let mut found = Vec::new();
    let mut counts = [0usize; 4];
    for folder in ["json-schema/draft2020-12", "json-schema/draft2020-12/optional/format"] {
        let Some(files) = common::folder(folder) else { return };
        for file in files {
            let groups: Vec<Value> =
                serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
            let stem = file.file_stem().unwrap().to_string_lossy().into_owned();
            let is_annotation = stem == "uniqueItems"
                || folder.ends_with("format") && !FORMATS.contains(&stem.as_str());
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
                    } else if accepts && is_annotation {
                        counts[3] += 1;
                    } else {
                        counts[1] += 1;
                        let kind = if accepts { "accepted" } else { "rejected" };
                        found.push(format!("{name}\t{kind}\t{text}"));
                    }
                }
            }
        }
    }
    let [same, other, refused, unchecked] = counts;
    println!(
        "judged as the suite {same}, otherwise {other}, refused {refused}, not checked {unchecked}"
    );
    common::compare(&found, include_str!("schema-disagreements.txt"), "schema-disagreements.txt");
    assert!(counts[0] > 900 && counts[1] < 60, "{counts:?}");
}

/// Published vocabularies of several kinds of tokenizers.
const NAMES: [&str; 5] = ["gpt-2", "llama-bpe", "llama-spm", "phi-3", "qwen2"];

/// Texts of randomly drawn tokens, compared with the same schema over single bytes.
#[test]
fn texts_of_drawn_tokens_are_allowed() {
    let schema = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "maxLength": 12 },
            "kind": { "enum": ["first choice", "second choice"] },
            "count": { "type": "integer", "minimum": 0, "maximum": 999 }
        },
        "required": ["name", "kind", "count"],
        "additionalProperties": false
    });
    let constraint = Constraint::JsonSchema(schema);
    let bytes = Compiler::of_bytes().unwrap().compile(&constraint).unwrap();
    for name in NAMES {
        let Some(file) = common::find(&format!("vocab/ggml-vocab-{name}.gguf")) else { return };
        let checkpoint = Checkpoint::open(file).unwrap();
        let tokenizer = Arc::new(Tokenizer::from_metadata(checkpoint.metadata()).unwrap());
        let start = Compiler::new(&tokenizer).unwrap().compile(&constraint);
        let start = start.unwrap_or_else(|error| panic!("{name}: {error}"));
        for seed in 0..4 {
            let mut random = Random::new(seed);
            let mut matcher = start.copy();
            let mut text: Vec<u8> = Vec::new();
            let mut append = |ids: &[u32]| {
                for &id in ids {
                    text.extend(tokenizer.token_bytes(id).unwrap());
                }
            };
            for _ in 0..400 {
                append(&matcher.consume_forced().unwrap());
                if matcher.is_stopped() {
                    break;
                }
                let mask = matcher.mask().unwrap();
                let allowed: Vec<u32> = (0..tokenizer.vocab_size() as u32)
                    .filter(|&id| mask[id as usize / 32] >> (id % 32) & 1 == 1)
                    .collect();
                assert!(!allowed.is_empty(), "{name}, seed {seed}: no token is allowed");
                let id = allowed[random.below(allowed.len())];
                if tokenizer.ends().contains(&id) {
                    break;
                }
                matcher.consume(id).unwrap();
                append(&[id]);
            }
            let shown = String::from_utf8_lossy(&text).into_owned();
            assert!(bytes.copy().accepts(&text).unwrap(), "{name}, seed {seed}: {shown:?}");
            let value: Value = serde_json::from_slice(&text).unwrap();
            assert!(value["count"].as_u64().unwrap() <= 999, "{name}: {shown}");
        }
    }
}
