//! `pelton run`.

use std::{io::Write, process::Stdio};

use super::{json, pelton, run, stdout};

const STORY: [&str; 7] = ["run", "Once upon a time", "-n", "30", "--seed", "5", "--echo"];

#[test]
fn run_streams_text_to_stdout_and_statistics_to_stderr() {
    let output = run(&STORY);
    let text = stdout(&output);
    assert!(text.starts_with("Once upon a time") && text.len() > 60, "{text}");
    let statistics = String::from_utf8(output.stderr).unwrap();
    for part in ["prompt tokens", "tokens/s", "first token after", "seed 5"] {
        assert!(statistics.contains(part), "{statistics}");
    }
}

#[test]
fn run_says_the_same_in_json() {
    let text = stdout(&run(&STORY));
    let object = json(&[&STORY[..], &["--json"]].concat());
    let said =
        format!("{}{}\n", object["prompt"].as_str().unwrap(), object["text"].as_str().unwrap());
    assert_eq!(said, text);
    assert_eq!(object["generated_tokens"], 30);
    assert_eq!(object["finish_reason"], "length");
    assert_eq!(object["seed"], 5);
}

#[test]
fn run_reads_a_prompt_from_stdin() {
    let mut child = pelton()
        .args(["run", "-", "-n", "5", "--seed", "1", "--echo"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all("The little fox".as_bytes()).unwrap();
    let text = stdout(&child.wait_with_output().unwrap());
    assert!(text.starts_with("The little fox"), "{text}");
}

#[test]
fn run_stops_before_a_stop_string() {
    let object = json(&["run", "Once upon a time", "--temperature", "0", "--stop", ".", "--json"]);
    assert_eq!(object["finish_reason"], "stop");
    assert!(!object["text"].as_str().unwrap().contains('.'));
}

/// Each penalty changes the text of the same seed, and a window of 0 disables them.
#[test]
fn run_with_penalties() {
    let story = |flags: &[&'static str]| {
        let greedy = ["run", "Once upon a time", "-n", "60", "--temperature", "0", "--json"];
        json(&[&greedy[..], flags].concat())["text"].as_str().unwrap().to_owned()
    };
    let plain = story(&[]);
    for flag in ["--repetition-penalty", "--presence-penalty", "--frequency-penalty"] {
        assert_ne!(story(&[flag, "3"]), plain, "{flag}");
        assert_eq!(story(&[flag, "3", "--penalty-window", "0"]), plain, "{flag}");
    }
    assert_ne!(story(&["--presence-penalty", "-3"]), plain);
}

#[test]
fn run_in_a_given_memory_for_keys_and_values() {
    let text = stdout(&run(&STORY));
    for size in ["8M", "0.5%"] {
        let args = [&STORY[..], &["--kv-memory", size]].concat();
        assert_eq!(stdout(&run(&args)), text, "{size}");
    }
}
