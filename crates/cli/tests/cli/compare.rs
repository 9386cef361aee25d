//! `pelton compare`, compared with figures that `tests/fixtures/make_windows.py` computed with
//! transformers and numpy in f64.

use std::fs;

use serde_json::Value;

use super::{fixture, json, refused, run, stdout, temporary};

fn model(name: &str) -> String {
    fixture(&format!("models/{name}/model.gguf"))
}

fn close(found: &Value, expected: &Value, relative: f64) {
    let (found, expected) = (found.as_f64().unwrap(), expected.as_f64().unwrap());
    assert!((found / expected - 1.0).abs() < relative, "{found} for {expected}");
}

const EXACT: [&str; 6] = ["--context", "16", "--kv", "f32", "--device", "cpu"];

#[test]
fn figures_are_those_of_numpy() {
    let expected = fs::read_to_string(fixture("perplexity/windows.json")).unwrap();
    let expected: Value = serde_json::from_str(&expected).unwrap();
    let text = fixture("perplexity/windows.txt");
    let (a, b) = (model("llama3"), model("smollm3"));
    let found = json(&[&["compare", &a, &b, &text, "--json"], &EXACT[..]].concat());
    close(&found["a"]["perplexity"]["value"], &expected["base"]["value"], 1e-4);
    close(&found["b"]["perplexity"]["value"], &expected["other"]["value"], 1e-4);
    let (kl, of_numpy) = (&found["kl_divergence"], &expected["divergence"]);
    close(&kl["mean"]["value"], &of_numpy["mean"], 1e-3);
    for name in ["median", "percentile_99", "maximum"] {
        close(&kl[name], &of_numpy[name], 1e-3);
    }
    for model in ["a", "b"] {
        for speed in ["prompt_tokens_per_second", "decode_tokens_per_second"] {
            assert!(found[model][speed].as_f64().unwrap() > 0.0, "{found}");
        }
        assert!(found[model]["bytes"].as_u64().unwrap() > 0, "{found}");
    }
    // a model is no different from itself, exactly
    let own = json(&[&["compare", &a, &a, &text, "--json"], &EXACT[..]].concat());
    assert_eq!(own["kl_divergence"]["maximum"], 0.0);
    assert_eq!(own["same_top_token"]["value"], 1.0);
}

#[test]
fn the_table_and_the_picture() {
    let text = fixture("perplexity/windows.txt");
    let (a, b) = (model("llama3"), model("smollm3"));
    let picture = temporary("compare.svg");
    let _ = fs::remove_file(&picture);
    let words = ["compare", &a, &b, &text, "--plot", picture.to_str().unwrap()];
    let table = stdout(&run(&[&words[..], &EXACT[..]].concat()));
    for word in
        ["perplexity", "prompt tokens/s", "decode tokens/s", "KL divergence", "same top token"]
    {
        assert!(table.contains(word), "{word}: {table}");
    }
    let svg = fs::read_to_string(&picture).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
    assert!(svg.contains("<polyline ") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    let said = refused(&[&words[..], &EXACT[..]].concat(), 1);
    assert!(said.contains("exists already, expected another name or --force"), "{said}");
}

#[test]
fn models_of_two_vocabularies_are_refused() {
    let text = fixture("perplexity/windows.txt");
    let said = refused(&["compare", &model("llama3"), "built-in", &text, "--context", "16"], 1);
    assert!(said.contains("expected two models of one vocabulary"), "{said}");
}
