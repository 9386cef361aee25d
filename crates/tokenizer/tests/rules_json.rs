//! Each rule of `tokenizer.json`, compared with PyPI `tokenizers` (`fixtures/make_rules.py`).

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "common/folder.rs"]
mod folder;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use folder::open;
use pelton_testing::{Need, skip};
use pelton_tokenizer::Special;
use proptest::prelude::*;
use serde_json::{Value, json};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/make_rules.py");

/// The cases of the fixture with their whole files, and its texts.
fn cases() -> (Vec<Value>, Vec<String>) {
    let all: Value = serde_json::from_str(include_str!("fixtures/rules.json")).unwrap();
    let mut cases = all["cases"].as_array().unwrap().clone();
    for case in &mut cases {
        let vocabulary = &all["vocabularies"][case["vocabulary"].as_u64().unwrap() as usize];
        for (key, value) in vocabulary.as_object().unwrap() {
            case["file"]["model"][key] = value.clone();
        }
    }
    (cases, serde_json::from_value(all["texts"].clone()).unwrap())
}

fn ids(value: &Value) -> Vec<u32> {
    serde_json::from_value(value.clone()).unwrap()
}

#[test]
fn ids_and_texts_are_those_of_tokenizers() {
    let (cases, texts) = cases();
    assert!(cases.len() > 100);
    let mut wrong = String::new();
    for case in &cases {
        let name = &case["name"];
        let tokenizer = match open(&case["file"]) {
            Ok(tokenizer) => tokenizer,
            Err(fault) => {
                wrong += &format!("{name}: {fault}\n");
                continue;
            }
        };
        for (at, text) in texts.iter().enumerate() {
            let expected = ids(&case["ids"][at]);
            let got = tokenizer.encode(text, Special::Parse).unwrap();
            if got != expected {
                wrong += &format!("{name}: {text:?} is {got:?}, expected {expected:?}\n");
            }
            let decoded = tokenizer.decode(&expected, true);
            let mut state = pelton_tokenizer::DecodeState::new(true);
            let mut streamed: String =
                expected.iter().map(|id| state.push(&tokenizer, *id)).collect();
            streamed += &state.finish();
            assert_eq!(decoded, streamed, "{name}: {text:?}");
            if decoded != case["decoded"][at] {
                let expected = &case["decoded"][at];
                wrong += &format!("{name}: {text:?} decodes to {decoded:?}, expected {expected}\n");
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// Random texts of all of Unicode, with the library itself: `PELTON_RULES_TEXTS` for each case.
#[test]
fn random_texts() {
    let python = std::env::var_os("PELTON_PYTHON").unwrap_or_else(|| "python3".into());
    let has = Command::new(&python).args(["-c", "import tokenizers"]).output();
    if !has.is_ok_and(|output| output.status.success()) {
        return skip(Need::Python, "no python with tokenizers");
    }
    let usual = if std::env::var_os("PELTON_FULL").is_some() { "100000" } else { "200" };
    let count = std::env::var("PELTON_RULES_TEXTS").unwrap_or_else(|_| usual.to_owned());
    let mut child = Command::new(&python)
        .args([Path::new(SCRIPT).as_os_str(), "--random".as_ref(), "1".as_ref(), count.as_ref()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut compared, mut wrong, mut differing) = (0, String::new(), 0);
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let case: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let tokenizer = open(&case["file"]).unwrap();
        let mut shown = 0;
        for (text, expected) in
            case["texts"].as_array().unwrap().iter().zip(case["ids"].as_array().unwrap())
        {
            let (text, expected) = (text.as_str().unwrap(), ids(expected));
            let got = tokenizer.encode(text, Special::Parse).unwrap();
            compared += 1;
            if got != expected {
                differing += 1;
                shown += 1;
                if shown <= 3 {
                    let name = &case["name"];
                    wrong += &format!("{name}: {text:?} is {got:?}, expected {expected:?}\n");
                }
            }
        }
    }
    assert!(child.wait().unwrap().success());
    println!("{compared} texts compared");
    assert!(wrong.is_empty(), "{differing} of {compared} differ:\n{wrong}");
}

/// The places of all objects of a value, as JSON pointers.
fn objects(value: &Value, place: &str, places: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            places.push(place.to_owned());
            for (key, value) in map.iter().filter(|(key, _)| *key != "vocab") {
                objects(value, &format!("{place}/{key}"), places);
            }
        }
        Value::Array(items) => {
            for (at, value) in items.iter().enumerate().take(8) {
                objects(value, &format!("{place}/{at}"), places);
            }
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn unknown_keys_are_refused_by_name(
        case in any::<prop::sample::Index>(),
        place in any::<prop::sample::Index>(),
        key in "zz[a-z_]{1,12}",
        value in prop_oneof![Just(json!(null)), Just(json!(true)), Just(json!(1)), Just(json!("x")), Just(json!({}))],
    ) {
        let (cases, _) = cases();
        let mut file = case.get(&cases)["file"].clone();
        let mut places = Vec::new();
        objects(&file, "", &mut places);
        let place = place.get(&places).clone();
        file.pointer_mut(&place).unwrap()[&key] = value;
        let Err(fault) = open(&file) else {
            return Err(TestCaseError::fail(format!("{place} {key} is accepted")));
        };
        prop_assert!(fault.contains(&key), "{place} {key}: {fault}");
    }
}

#[test]
fn rules_that_are_not_computed_are_refused_by_place() {
    let (cases, _) = cases();
    let file = &cases[0]["file"];
    for (place, value, expected) in [
        (
            "pre_tokenizer",
            json!({"type": "UnicodeScripts"}),
            "pre_tokenizer.type is \"UnicodeScripts\"",
        ),
        (
            "normalizer",
            json!({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Rot13"}]}),
            "normalizer.normalizers[1].type is \"Rot13\"",
        ),
        ("decoder", json!({"type": "CTC"}), "decoder.type is \"CTC\""),
        (
            "pre_tokenizer",
            json!({"type": "Split", "pattern": {"Regex": "(a"}, "behavior": "Isolated", "invert": false}),
            "pre_tokenizer has the pattern \"(a\"",
        ),
        (
            "pre_tokenizer",
            json!({"type": "Split", "pattern": {"String": "a"}, "behavior": "Glued", "invert": false}),
            "pre_tokenizer.behavior is \"Glued\"",
        ),
        ("post_processor", json!({"type": "Stamp"}), "post_processor[0].type\" is \"Stamp\""),
    ] {
        let mut file = file.clone();
        file[place] = value;
        let fault = open(&file).unwrap_err();
        assert!(fault.contains(expected), "{fault}");
    }
    let mut file = file.clone();
    file["model"]["dropout"] = json!(0.1);
    let fault = open(&file).unwrap_err();
    assert!(fault.contains("model.dropout is 0.1"), "{fault}");
}

/// Sequences in sequences, patterns of great size, and replacements that multiply a text.
#[test]
fn hostile_files_are_refused_or_bounded() {
    let (cases, _) = cases();
    let base = &cases[0]["file"];
    let mut file = base.clone();
    let mut nested = json!({"type": "NFC"});
    for _ in 0..100 {
        nested = json!({"type": "Sequence", "normalizers": [nested]});
    }
    file["normalizer"] = nested;
    assert!(open(&file).unwrap_err().contains("tokenizer.json"));

    let mut file = base.clone();
    file["normalizer"] =
        json!({"type": "Sequence", "normalizers": vec![json!({"type": "NFC"}); 1000]});
    assert!(open(&file).unwrap_err().contains("more than 64 normalizers"));

    for pattern in [r"(?:\p{L}{1000}){1000}", &"a".repeat(20_000), r"(?=\p{L}{500}{500}{500})"] {
        let mut file = base.clone();
        file["pre_tokenizer"] = json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
        assert!(open(&file).is_err(), "{}", &pattern[..10]);
    }

    let mut file = base.clone();
    let grow = json!({"type": "Replace", "pattern": {"Regex": "."}, "content": "x".repeat(1000)});
    file["normalizer"] = json!({"type": "Sequence", "normalizers": [grow, grow, grow, grow]});
    let fault = open(&file).unwrap().encode(&"a".repeat(1000), Special::Parse).unwrap_err();
    assert!(fault.to_string().contains("make the text longer"), "{fault}");
}

/// A megabyte of the texts that make patterns, words and segmentations slow, for every case.
#[test]
fn a_megabyte_takes_linear_time() {
    let (cases, _) = cases();
    let texts = ["a", " ", "a ", "\u{e9}", "the", "1", "'", "\n", "\u{301}", "[MASK] ", "  x"];
    let full = std::env::var_os("PELTON_FULL").is_some();
    let size = if full { 1_000_000 } else { 100_000 };
    for (case, text) in cases.iter().enumerate().flat_map(|(at, case)| {
        let all = texts.iter().enumerate();
        all.filter(move |(n, _)| full || n % 5 == at % 5).map(move |(_, text)| (case, *text))
    }) {
        let tokenizer = open(&case["file"]).unwrap();
        let start = std::time::Instant::now();
        let _ = tokenizer.encode(&text.repeat(size / text.len()), Special::Parse);
        let seconds = start.elapsed().as_secs_f64();
        if seconds > 0.5 {
            println!("{}: {text:?} took {seconds} s", case["name"]);
        }
        assert!(seconds < 20.0, "{}: {text:?} took {seconds} s", case["name"]);
    }
}
