//! `pelton plan`.

use serde_json::Value;

use super::{pelton, stdout, temporary};

fn plan(options: &[&str]) -> Value {
    let output = pelton()
        .args(["plan", "built-in", "--device", "cpu", "--threads", "1", "--json"])
        .args(options)
        .output();
    serde_json::from_str(&stdout(&output.unwrap())).unwrap()
}

fn number(object: &Value, key: &str) -> f64 {
    object[key].as_f64().unwrap_or_else(|| panic!("{key} is missing in {object}"))
}

/// Sizes and times by the formulas of docs/scale.md, from the shapes that the file names.
#[test]
fn a_stated_device() {
    let output = pelton().args(["inspect", "built-in", "--json", "--tensors"]).output().unwrap();
    let file: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let key = |name: &str| number(&file["metadata"], &format!("llama.{name}"));
    let tensors = file["tensors"].as_array().unwrap();
    let bytes: f64 = tensors.iter().map(|tensor| number(tensor, "bytes")).sum();
    let head = key("embedding_length") / key("attention.head_count");
    let position = 2.0 * key("block_count") * key("attention.head_count_kv") * head * 2.0;

    let options = ["--streams", "4", "--context", "128", "--depth", "99"];
    let endless = plan(&[&options[..], &["--read", "1", "--multiply", "1e12"]].concat());
    let memory = &endless["memory"];
    assert_eq!(number(memory, "caches"), 4.0 * 128.0 * position);
    assert!(
        number(memory, "mapped") <= bytes && number(memory, "mapped") > 0.9 * bytes,
        "{memory}"
    );
    let parts = ["weights", "mapped", "copies", "caches", "buffers", "scratch", "program"];
    let parts = parts.map(|key| number(memory, key));
    assert_eq!(number(memory, "total"), parts.iter().sum::<f64>());
    // a byte takes a nanosecond; the output matrix is the table of embeddings
    let read = bytes + 4.0 * 100.0 * position;
    let found = number(&endless, "token_milliseconds");
    assert!((found / (read * 1e-6) - 1.0).abs() < 0.01, "{found}, {read}");
    let rate = number(&endless, "decode_tokens_per_second");
    assert!((rate * found / 4e3 - 1.0).abs() < 1e-9);

    // two operations for each parameter of a matrix, of three further rows
    let matrices = tensors.iter().filter(|tensor| tensor["shape"].as_array().unwrap().len() > 1);
    let elements = |tensor: &Value| -> f64 {
        tensor["shape"].as_array().unwrap().iter().map(|side| side.as_f64().unwrap()).product()
    };
    let products: f64 = matrices.map(elements).sum();
    let slow = plan(&[&options[..], &["--read", "1e9", "--multiply", "1"]].concat());
    let found = number(&slow, "token_milliseconds");
    assert!((found / (3.0 * 2.0 * products * 1e-6) - 1.0).abs() < 0.01, "{found}, {products}");
    // a step of a millisecond
    let steps =
        plan(&[&options[..], &["--read", "1e9", "--multiply", "1e12", "--step", "1000"]].concat());
    assert!(number(&steps, "token_milliseconds") >= key("block_count"), "{steps}");
}

#[test]
fn streams_within_a_target_and_a_memory() {
    let stated = ["--context", "128", "--read", "1", "--multiply", "1e12"];
    let within =
        |options: &[&str]| number(&plan(&[&stated, options].concat()), "streams_within_target");
    let free = plan(&stated);
    assert_eq!(within(&["--target-tbt", "1"]), 0.0);
    let time = number(&free, "token_milliseconds");
    let some = within(&["--target-tbt", &(time * 1.5).to_string()]);
    assert!(some > 1.0 && some < 4096.0, "{some}");
    let one = number(&free["memory"], "total");
    let [kv, mapped] = ["caches", "mapped"].map(|key| number(&free["memory"], key));
    let memory = ((one - mapped + 2.5 * kv) as u64).to_string();
    assert_eq!(within(&["--target-tbt", "1e6", "--memory", &memory]), 3.0);
}

/// The rates are measured once, by the memory and by passes over a model, and kept for
/// `inspect --placement` too.
#[test]
fn this_machine() {
    let cache = temporary("plan-cache");
    // an earlier run kept its rates
    let _ = std::fs::remove_dir_all(&cache);
    let on = |arguments: &[&str]| {
        let mut command = pelton();
        command.env("XDG_CACHE_HOME", &cache).args(arguments).args(["--device", "cpu", "--json"]);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).contains("measuring the speed");
        (serde_json::from_str::<Value>(&stdout(&output)).unwrap(), said)
    };
    let planned = |more: &[&str]| {
        on(&[&["plan", "built-in", "--context", "256", "--depth", "128"], more].concat())
    };
    let (found, said) = planned(&["--streams", "2"]);
    assert!(said, "{found}");
    for key in ["read_bytes_per_second", "cache_bytes_per_second", "operations_per_second"] {
        assert!(number(&found["rates"], key) > 1e6, "{found}");
    }
    assert!(number(&found, "decode_tokens_per_second") > 1.0);
    assert!(number(&found["memory"], "available") > 1e6);
    let (one, said) = planned(&[]);
    assert!(!said && one["rates"] == found["rates"], "{one}, {found}");
    // both commands have one answer
    let (placed, said) = on(&["inspect", "built-in", "--placement", "--context", "256"]);
    assert!(!said, "{placed}");
    let [planned_rate, placed_rate] = [
        number(&one, "decode_tokens_per_second"),
        number(&placed["prediction"], "tokens_per_second"),
    ];
    assert!((planned_rate / placed_rate - 1.0).abs() < 1e-3, "{planned_rate}, {placed_rate}");
    let (_, said) = planned(&["--measure"]);
    assert!(said);
}

#[test]
fn options_that_make_no_sense() {
    for (options, sentence) in [
        (&["--read=-1", "--multiply", "1"][..], "--read is -1, expected a number above 0"),
        (&["--read", "1", "--multiply", "nan"], "--multiply is NaN, expected a number above 0"),
        (&["--read", "1"], "--multiply"),
        (&["--target-tbt", "0", "--read", "1", "--multiply", "1"], "--target-tbt is 0"),
        (&["--memory", "50%", "--read", "1", "--multiply", "1"], "expected one such as 16G"),
        (&["--streams", "0"], "1..=4096"),
    ] {
        let output =
            pelton().args(["plan", "built-in", "--device", "cpu"]).args(options).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(sentence), "{options:?}: {text}");
    }
}
