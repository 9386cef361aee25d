//! `pelton effort`, and the flags of effort.

use std::fs;

use pelton::weights::DType;
use pelton_testing::ModelSpec;

use super::{fixture, pelton, refused, temporary};

/// The first load measures thresholds and saves them, later ones find them; a file of
/// another model is refused.
#[test]
fn measured_thresholds_are_used() {
    let text = fixture("perplexity/windows.txt");
    let cache = temporary("thresholds");
    let _ = fs::remove_dir_all(&cache);
    let run = || {
        let all = ["--effort", "0.5", "--context", "16", "--windows", "2", "--device", "cpu"];
        let mut command = pelton();
        command.env("XDG_CACHE_HOME", &cache).env("HOME", &cache);
        let output = command.args(["perplexity", "built-in", &text]).args(all).output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap(), output.stdout)
    };
    let (_, said, first) = run();
    let told = "measured the thresholds of effort on a standard text, and saved them as ";
    let file = said.split_once(told).map(|(_, rest)| rest.lines().next().unwrap().to_owned());
    let file = file.unwrap_or_else(|| panic!("{said}"));
    let (_, said, second) = run();
    assert!(!said.contains(told), "{said}");
    assert_eq!(first, second);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("model\":\"", "model\":\"0")).unwrap();
    let (succeeds, said, _) = run();
    assert!(!succeeds && said.contains("made for another model"), "{said}");
}

/// Weights whose format has no form are read whole, and one line says so.
#[test]
fn a_format_without_a_form_runs_whole() {
    let model = temporary("whole-q4_0.gguf");
    fs::write(&model, ModelSpec::wide(DType::Q4_0).file(&[])).unwrap();
    let model = model.to_str().unwrap();
    let run = |more: &[&str]| {
        let all = ["bench", model, "-p", "0", "-n", "1", "-r", "1", "--device", "cpu"];
        let output = pelton().args(all).args(more).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let told =
        "the whole model runs at any effort, as its weights in Q4_0 are whole on this device";
    assert!(run(&["--effort", "0.5"]).contains(told));
    assert!(!run(&[]).contains(told));
    let refused = refused(&["run", model, "x", "--device", "cpu", "--effort", "1,ranks=4"], 1);
    assert!(refused.contains("no matrix is kept in sorted buckets"), "{refused}");
}

#[test]
fn flags_that_are_refused() {
    let refused_value =
        |value: &str| refused(&["run", "built-in", "x", &format!("--effort={value}")], 2);
    assert!(refused_value("0.5,0.5").contains("expected one"));
    assert!(refused_value("ranks=4").contains("names no effort"));
    assert!(refused_value("1,mode=nested").contains("has no key 'mode', expected always, ranks"));
}

#[test]
fn a_pack_of_a_wrong_format_names_the_right_one() {
    let path = temporary("pack-q8_0.gguf");
    let said = refused(&["effort", "pack", "built-in", path.to_str().unwrap()], 1);
    assert!(
        said.contains("built-in") && said.contains("expected matrices in F16, BF16 or F32"),
        "{said}"
    );
}
