//! The time of a mask on a vocabulary of 128,256 tokens.
//!
//! `cargo bench -p pelton-constraint [-- VOCABULARY.gguf]` follows texts token by token under their
//! schemas, and prints the median and the 99th percentile of the time of `Matcher::mask`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a benchmark fails by panic")]

use std::{sync::Arc, time::Instant};

use pelton_constraint::{Compiler, Constraint};
use pelton_tokenizer::{Special, Tokenizer};
use pelton_weights::Checkpoint;
use serde_json::json;

const DEFAULT: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/vocab/ggml-vocab-llama-bpe.gguf");
/// Texts that are followed for each constraint, each with warm and cold caches alike.
const ROUNDS: usize = 20;

fn main() {
    let argument = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let file = argument.unwrap_or_else(|| DEFAULT.to_owned());
    let Ok(checkpoint) = Checkpoint::open(&file) else {
        return eprintln!("no {file}: name a GGUF file with a vocabulary");
    };
    let tokenizer = Arc::new(Tokenizer::from_metadata(checkpoint.metadata()).unwrap());
    let begun = Instant::now();
    let compiler = Compiler::new(&tokenizer).unwrap();
    println!(
        "{} tokens, trie in {:.0} ms",
        tokenizer.vocab_size(),
        begun.elapsed().as_secs_f64() * 1e3
    );
    let person = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 60},
            "age": {"type": "integer", "minimum": 0, "maximum": 150},
            "mail": {"type": "string", "format": "email"},
            "tags": {"type": "array", "items": {"enum": ["new", "old", "gone"]}},
            "address": {
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
                "required": ["street", "city"],
                "additionalProperties": false
            }
        },
        "required": ["name", "age", "mail", "tags", "address"],
        "additionalProperties": false
    });
    let value = json!({
        "name": "Ada Lovelace, Countess of Lovelace", "age": 36, "mail": "ada@analytical.example",
        "tags": ["old", "gone"], "address": {"street": "12 St James's Square", "city": "London"}
    });
    let pretty = serde_json::to_string_pretty(&value).unwrap();
    let free = json!({"title": "On the engine", "pages": [1, 2.5, -3e4], "notes": {"a": null, "b": [true, "x"]}});
    for (name, constraint, text) in [
        ("schema, compact", Constraint::JsonSchema(person.clone()), value.to_string()),
        ("schema, indented", Constraint::JsonSchema(person), pretty),
        ("any object", Constraint::JsonObject, free.to_string()),
        (
            "regular expression",
            Constraint::Regex("([A-Z][a-z]+ ){3,}[0-9]{4}".into()),
            "Ada King Byron Noel Lovelace 1843".into(),
        ),
    ] {
        let begun = Instant::now();
        compiler.compile(&constraint).unwrap();
        let compiled = begun.elapsed();
        let ids = tokenizer.encode(&text, Special::Ignore).unwrap();
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let mut matcher = compiler.compile(&constraint).unwrap();
            for &id in &ids {
                let begun = Instant::now();
                let mask = matcher.mask().unwrap();
                times.push(begun.elapsed().as_secs_f64() * 1e6);
                assert!(mask[id as usize / 32] >> (id % 32) & 1 == 1, "{name}: {id}");
                matcher.consume(id).unwrap();
            }
            assert!(matcher.is_accepting().unwrap());
        }
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        println!(
            "{name}: compiled in {:.1} ms; {} masks, median {:.0} us, 99 % {:.0} us, most {:.0} us",
            compiled.as_secs_f64() * 1e3,
            times.len(),
            at(0.5),
            at(0.99),
            at(1.0)
        );
    }
}
