//! `pelton perplexity`, compared with figures and a file of logits that
//! `tests/fixtures/make_windows.py` computed with transformers and numpy in f64.

use std::fs;

use serde_json::Value;

use super::{json, refused, run, stdout, temporary};

fn fixtures(name: &str) -> String {
    format!("{}/../../tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn model(name: &str) -> String {
    fixtures(&format!("models/{name}/model.gguf"))
}

fn figures() -> Value {
    serde_json::from_str(&fs::read_to_string(fixtures("perplexity/windows.json")).unwrap()).unwrap()
}

fn close(found: &Value, expected: &Value, relative: f64) {
    let (found, expected) = (found.as_f64().unwrap(), expected.as_f64().unwrap());
    assert!((found / expected - 1.0).abs() < relative, "{found} for {expected}");
}

/// The log-probabilities `[rows, vocabulary]` of a file, and the bytes before them.
fn read(bytes: &[u8], context: usize, vocab: usize) -> (&[u8], Vec<Vec<f32>>) {
    let windows = i32::from_le_bytes(bytes[16..20].try_into().unwrap()) as usize;
    let (head, rows) = bytes.split_at(20 + 4 * windows * context);
    let rows = rows.chunks_exact(8 + 2 * vocab.next_multiple_of(2)).map(|row| {
        let float = |at: usize| f32::from_le_bytes(row[at..at + 4].try_into().unwrap());
        let codes = row[8..8 + 2 * vocab].chunks_exact(2);
        let code = |pair: &[u8]| f32::from(u16::from_le_bytes(pair.try_into().unwrap()));
        codes.map(|pair| float(0) * code(pair) + float(4)).collect()
    });
    (head, rows.collect())
}

#[test]
fn saved_logits_are_those_of_transformers() {
    let (expected, to) = (figures(), temporary("saved.kld"));
    let (model, text) = (model("llama3"), fixtures("perplexity/windows.txt"));
    let found = json(&[
        "perplexity",
        &model,
        &text,
        "--context",
        "16",
        "--save-base",
        to.to_str().unwrap(),
        "--json",
        "--kv",
        "f32",
        "--device",
        "cpu",
    ]);
    close(&found["perplexity"]["value"], &expected["base"]["value"], 1e-4);
    close(&found["perplexity"]["error"], &expected["base"]["error"], 1e-3);
    let [saved, reference] =
        [to, fixtures("perplexity/windows.kld").into()].map(|path| fs::read(path).unwrap());
    assert_eq!(saved.len(), reference.len());
    let ((head, rows), (same, others)) = (read(&saved, 16, 107), read(&reference, 16, 107));
    assert_eq!(head, same);
    for (row, other) in rows.iter().zip(&others) {
        for (a, b) in row.iter().zip(other) {
            assert!((a - b).abs() < 2e-3, "{a} for {b}");
        }
    }
    // the model against itself: only the rounding of the file is left
    let own = json(&[
        "perplexity",
        &model,
        "--base",
        &fixtures("perplexity/windows.kld"),
        "--json",
        "--kv",
        "f32",
        "--device",
        "cpu",
    ]);
    assert!(own["base"]["kl_divergence"]["mean"]["value"].as_f64().unwrap().abs() < 1e-5, "{own}");
    assert_eq!(own["base"]["same_top_token"]["value"], 1.0);
    assert_eq!(own["scored_tokens"], expected["tokens"].as_array().unwrap().len() / 16 * 7);
}

#[test]
fn divergence_is_that_of_numpy() {
    let (expected, base) = (figures(), fixtures("perplexity/windows.kld"));
    let (model, text) = (model("smollm3"), fixtures("perplexity/windows.txt"));
    let args = ["perplexity", &model, &text, "--base", &base, "--device", "cpu", "--kv", "f32"];
    let found = json(&[&args[..], &["--json"]].concat());
    close(&found["perplexity"]["value"], &expected["other"]["value"], 1e-4);
    let (kl, of_numpy) = (&found["base"]["kl_divergence"], &expected["divergence"]);
    close(&kl["mean"]["value"], &of_numpy["mean"], 1e-3);
    close(&kl["mean"]["error"], &of_numpy["error"], 1e-3);
    for name in ["median", "percentile_99", "maximum"] {
        close(&kl[name], &of_numpy[name], 1e-3);
    }
    close(&found["base"]["perplexity"]["value"], &expected["base"]["value"], 1e-4);
    close(&found["base"]["same_top_token"]["value"], &expected["same_top"], 1e-9);
    let shown = stdout(&run(&args));
    assert!(shown.contains("KL divergence    3.52") && shown.contains("same top token   0.94"));
}

#[test]
fn files_of_logits_that_are_none() {
    let (model, sound) = (model("llama3"), fs::read(fixtures("perplexity/windows.kld")).unwrap());
    let to = temporary("hostile.kld");
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = sound.clone();
        change(&mut bytes);
        fs::write(&to, bytes).unwrap();
        refused(&["perplexity", &model, "--base", to.to_str().unwrap(), "--device", "cpu"], 1)
    };
    let set = |at: usize, value: i32| {
        move |bytes: &mut Vec<u8>| bytes[at..at + 4].copy_from_slice(&value.to_le_bytes())
    };
    let rows = 20 + 4 * 91 * 16;
    let cases: [(String, &str); 9] = [
        (refused(&|bytes| bytes.clear()), "expected it to begin with _logits_"),
        (refused(&|bytes| bytes[0] = b'x'), "expected it to begin with _logits_"),
        (refused(&|bytes| bytes.truncate(18)), "ends in its header"),
        (refused(&|bytes| bytes.truncate(40_000)), "has 40000 bytes, expected"),
        (refused(&set(8, 2)), "the context of"),
        (refused(&set(12, -1)), "is -1, expected at least 1"),
        (refused(&set(16, i32::MAX)), "for 2147483647 windows"),
        (refused(&set(20, 107)), "is 107, expected one below 107"),
        (refused(&set(rows, 0x7fc0_0000)), "has the scale NaN"),
    ];
    for (message, expected) in cases {
        assert!(message.contains(expected), "{message} without {expected}");
    }
}

#[test]
fn texts_that_do_not_fit() {
    let (model, text) = (model("llama3"), fixtures("perplexity/windows.txt"));
    let refused =
        |args: &[&str]| refused(&[&["perplexity", &model], args, &["--device", "cpu"]].concat(), 1);
    let base = fixtures("perplexity/windows.kld");
    let other = temporary("other.txt");
    fs::write(&other, "another text").unwrap();
    let short = refused(&[other.to_str().unwrap(), "--context", "64"]);
    assert!(short.contains("expected at least one window of 64"), "{short}");
    let message = refused(&[other.to_str().unwrap(), "--base", &base]);
    assert!(message.contains("expected the same text"), "{message}");
    let message = refused(&["--base", &base, "--context", "32"]);
    assert!(message.contains("--context is 32, expected the 16"), "{message}");
    let message = refused(&[&text, "--context", "2"]);
    assert!(message.contains("expected at least 3"), "{message}");
    fs::write(&other, [0xff, 0xfe]).unwrap();
    let message = refused(&[other.to_str().unwrap(), "--context", "16"]);
    assert!(message.contains("is not text"), "{message}");
}

#[test]
fn effort_is_scored_against_the_dense_model() {
    let (model, text) = ("built-in", fixtures("perplexity/windows.txt"));
    let base = temporary("effort.kld");
    let base = base.to_str().unwrap();
    let all = ["perplexity", model, &text, "--context", "32", "--windows", "4", "--device", "cpu"];
    json(&[&all[..], &["--json", "--save-base", base]].concat());
    let score = |more: &[&str]| {
        let found = json(&[&all[..], &["--json", "--base", base], more].concat());
        found["base"]["kl_divergence"]["mean"]["value"].as_f64().unwrap()
    };
    let full = score(&["--effort", "1"]);
    let [high, low] = [score(&["--effort", "0.9"]), score(&["--effort", "0.4"])];
    assert!(full.abs() < 1e-5 && full < high && high < low, "{full}, {high}, {low}");
    // a context that is read with effort 1 is nearer
    let after = score(&["--effort", "0.4", "--dense-context"]);
    assert!(after < low && after > high, "{after}");
    let message = refused(&["perplexity", model, &text, "--dense-context"], 2);
    assert!(message.contains("--effort"), "{message}");
}
