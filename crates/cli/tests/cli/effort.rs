//! `pelton effort`, and the flags of effort.

use std::fs;

use super::{fixture, pelton, refused, stdout, temporary};

#[test]
fn a_calibrated_table_is_used() {
    let (model, text) = (fixture("models/llama3/model.gguf"), fixture("perplexity/windows.txt"));
    let cache = temporary("calibrated");
    let _ = fs::remove_dir_all(&cache);
    let run = |args: &[&str]| {
        let mut command = pelton();
        command.env("XDG_CACHE_HOME", &cache).env("HOME", &cache).args(args);
        let output = command.output().unwrap();
        (String::from_utf8(output.stderr.clone()).unwrap(), stdout(&output))
    };
    let all = ["--context", "16", "--device", "cpu", "--json"];
    let at = |effort: &str| -> Vec<String> {
        let words = ["perplexity", &model, &text, "--effort", effort];
        words.iter().chain(&all).map(|&word| word.to_owned()).collect()
    };
    let score = |effort: &str| {
        let words = at(effort);
        run(&words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let (said, before) = score("0.5");
    assert!(said.contains("measured the thresholds of effort on a standard text"), "{said}");
    let args = ["effort", "calibrate", &model, &text, "--minutes", "0", "--layer-groups", "2"];
    let (_, found) = run(&[&args, &all[..]].concat());
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found["windows"], 1);
    let points = found["efforts"].as_array().unwrap();
    assert_eq!(points.len(), 8);
    for point in points {
        let [uniform, divergence] =
            ["uniform_divergence", "divergence"].map(|name| point[name].as_f64().unwrap());
        assert!(divergence <= uniform && uniform > 0.0, "{point}");
    }
    // the sum of divergences finds better fractions than the same for all
    let better = |point: &&serde_json::Value| point["divergence"] != point["uniform_divergence"];
    assert!(points.iter().filter(better).count() >= 4, "{points:?}");
    let file = found["file"].as_str().unwrap();
    assert!(file.starts_with(cache.to_str().unwrap()), "{file}");
    let (said, after) = score("0.5");
    assert!(said.contains(&format!("effort by the table {file}")), "{said}");
    assert_ne!(before, after);
    assert_eq!(score("0.5,table=uniform").1, before);
    assert_eq!(score(&format!("0.5,table={file}")).1, after);
    // a table of another model
    fs::write(file, fs::read_to_string(file).unwrap().replace("model\":\"", "model\":\"0"))
        .unwrap();
    let output = pelton().env("XDG_CACHE_HOME", &cache).args(at("0.5")).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && message.contains("made for another model"), "{message}");
}

#[test]
fn flags_that_are_refused() {
    let (model, text) = (fixture("models/llama3/model.gguf"), fixture("perplexity/windows.txt"));
    let refused_value =
        |value: &str| refused(&["run", "built-in", "x", &format!("--effort={value}")], 2);
    assert!(refused_value("0.5,0.5").contains("expected one"));
    assert!(refused_value("0.5,energy=0.5").contains("has no key 'energy'"));
    assert!(refused_value("mode=nested").contains("names no effort"));
    assert!(refused_value("1,modes=nested").contains("has no key 'modes', expected always, mode"));
    // the flags of before
    let old = refused(&["run", "built-in", "x", "--effort-mode", "nested"], 2);
    assert!(old.contains("--effort 0.5,mode=bucket"), "{old}");
    let calibrate = |more: &[&str], code| {
        refused(&[&["effort", "calibrate", &model, &text], more].concat(), code)
    };
    assert!(calibrate(&["--effort", "0.5"], 1).contains("measures all efforts"));
    assert!(calibrate(&["--minutes", "NaN"], 1).contains("--minutes is NaN"));
    assert!(calibrate(&["--context", "2"], 1).contains("expected at least 3"));
    assert!(calibrate(&["--layer-groups", "0"], 2).contains("layer-groups"));
    let message = calibrate(&["--context", "100000"], 1);
    assert!(message.contains("error: "), "{message}");
    let missing = ["run", "built-in", "x", "--effort", "0.5,table=/none.json"];
    assert!(refused(&missing, 1).contains("/none.json: could not be read"));
}

#[test]
fn a_pack_of_a_wrong_format_names_the_right_one() {
    let path = temporary("pack-q8_0.gguf");
    let said = refused(&["effort", "pack", "built-in", path.to_str().unwrap()], 1);
    assert!(said.contains("built-in") && said.contains("expected F16, BF16 or F32"), "{said}");
}
