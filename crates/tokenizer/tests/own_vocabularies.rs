//! Small test vocabularies compared with the ids of `tokenizers` and `sentencepiece`
//! (`fixtures/make.py`).

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use pelton_tokenizer::{Special, Tokenizer};
use pelton_weights::Checkpoint;
use serde_json::Value;

macro_rules! fixture {
    ($name:literal) => {
        (
            $name,
            include_bytes!(concat!("fixtures/", $name, ".gguf")).as_slice(),
            include_str!(concat!("fixtures/", $name, ".json")),
        )
    };
}

const FIXTURES: [(&str, &[u8], &str); 5] = [
    fixture!("bpe"),
    fixture!("spm"),
    fixture!("spm-bare"),
    fixture!("unigram"),
    fixture!("wordpiece"),
];

fn open(wanted: &str) -> Tokenizer {
    let (name, bytes, _) = FIXTURES.into_iter().find(|(name, ..)| *name == wanted).unwrap();
    Tokenizer::from_metadata(Checkpoint::from_bytes(name, bytes).unwrap().metadata()).unwrap()
}

/// All cases of a fixture: the text, its ids with special tokens as text, and as tokens.
fn cases(wanted: &str) -> Vec<(String, Vec<u32>, Option<Vec<u32>>)> {
    let (.., cases) = FIXTURES.into_iter().find(|(name, ..)| *name == wanted).unwrap();
    let ids = |value: &Value| -> Vec<u32> {
        value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
    };
    let cases: Vec<Value> = serde_json::from_str(cases).unwrap();
    assert!(cases.len() > 100);
    cases
        .iter()
        .map(|case| {
            let text = case["text"].as_str().unwrap().to_owned();
            (text, ids(&case["ids"]), case.get("parsed").map(ids))
        })
        .collect()
}

#[test]
fn ids_equal_those_of_the_libraries() {
    let mut wrong = Vec::new();
    for (name, ..) in FIXTURES {
        let tokenizer = open(name);
        for (text, ignored, parsed) in cases(name) {
            let ids = tokenizer.encode(&text, Special::Ignore).unwrap();
            if ids != ignored {
                wrong.push(format!("{name} {text:?}\n  got      {ids:?}\n  expected {ignored:?}"));
            }
            let Some(parsed) = parsed else { continue };
            let ids = tokenizer.encode(&text, Special::Parse).unwrap();
            if ids != parsed {
                wrong.push(format!("{name} {text:?}\n  got      {ids:?}\n  expected {parsed:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn special_tokens_are_covered() {
    for (name, least) in [("bpe", 2), ("wordpiece", 1)] {
        let parsed = cases(name).into_iter().filter(|(.., parsed)| parsed.is_some()).count();
        assert!(parsed >= least, "{name}: {parsed}");
    }
}
