//! The perplexity of the built-in model, compared with that of PyPI `transformers`.

use std::{fs, path::PathBuf};

use pelton::{Engine, LoadOptions, ModelSource, tokenizer::Special};
use pelton_cpu::Cpu;
use serde_json::Value;

fn read(path: &str) -> Value {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Text that the model was not trained on; `tests/fixtures/make_perplexity.py` wrote it down.
fn documents() -> Vec<String> {
    serde_json::from_value(read("tests/fixtures/perplexity/plain_facts.json")).unwrap()
}

/// e to the mean of -ln p over all tokens but the first of each document, in f64.
fn perplexity(cpu: Cpu, documents: &[String]) -> f64 {
    let model =
        Engine::with_backend(cpu).load(ModelSource::BuiltIn, &LoadOptions::default()).unwrap();
    let encode = |text: &String| model.tokenizer().unwrap().encode(text, Special::Parse).unwrap();
    let documents: Vec<Vec<u32>> = documents.iter().map(encode).collect();
    let mut session = model.into_session().unwrap();
    let (mut nats, mut tokens) = (0.0, 0);
    for ids in documents {
        tokens += ids.len() - 1;
        let mut next = ids[1..].iter();
        session.truncate(0);
        let score = |logits: &[f32]| {
            let Some(&next) = next.next() else { return };
            let sum: f64 = logits.iter().map(|&l| f64::from(l).exp()).sum();
            nats += sum.ln() - f64::from(logits[next as usize]);
        };
        session.run_all(&ids[..ids.len() - 1], score).unwrap();
    }
    (nats / tokens as f64).exp()
}

/// The reference path, with keys and values in f32, gives the same five digits (once measured: it
/// takes a minute). Rounding activations to 8 bits moves the perplexity by 4 of 10,000.
#[test]
fn perplexity_of_transformers() {
    let figures = read("models/tiny/figures.json");
    let expected = figures["perplexity"]["plain_facts"]["perplexity_per_token"].as_f64().unwrap();
    let got = perplexity(Cpu::new(2), &documents());
    assert!((got / expected - 1.0).abs() < 1e-3, "{got} for {expected}");
}

#[test]
fn fast_as_reference() {
    let documents = &documents()[..10];
    let [fast, reference] = [Cpu::new(2), Cpu::reference()].map(|cpu| perplexity(cpu, documents));
    assert!((fast / reference - 1.0).abs() < 1e-3, "{fast} for {reference}");
}
