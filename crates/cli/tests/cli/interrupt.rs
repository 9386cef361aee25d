//! Ctrl-C during a run.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    path::PathBuf,
    process::{Child, ChildStderr, Command, Stdio},
    time::{Duration, Instant},
};

use super::{pelton, temporary};

const CONTEXT: u32 = 32_768;

/// The built-in model with a longer context.
pub(super) fn long_model(name: &str) -> PathBuf {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/tiny/pelton-tiny.gguf");
    let mut bytes = fs::read(file).unwrap();
    let key = b"llama.context_length";
    let at = bytes.windows(key.len()).position(|window| window == key).unwrap() + key.len();
    // a u32 has the type 4
    assert_eq!(bytes[at..at + 8], [4, 0, 0, 0, 0, 4, 0, 0]);
    bytes[at + 4..at + 8].copy_from_slice(&CONTEXT.to_le_bytes());
    let path = temporary(name);
    fs::write(&path, bytes).unwrap();
    path
}

/// A run of a model after a prompt, with debug lines on standard error.
fn start(model: PathBuf, prompt: &str, flags: &[&str]) -> Child {
    let mut child = pelton()
        .args(["run", "--raw"])
        .arg(model)
        .args([
            "-",
            "--echo",
            "--threads",
            "1",
            "--device",
            "cpu",
            "--context",
            &CONTEXT.to_string(),
        ])
        .args(flags)
        .env("RUST_LOG", "pelton=debug")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(prompt.as_bytes()).unwrap();
    child
}

fn interrupt(child: &Child) {
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(status.unwrap().success());
}

/// Waits for a log line with this text.
fn wait_for(text: &str, errors: &mut BufReader<ChildStderr>) {
    let mut line = String::new();
    while !line.contains(text) {
        line.clear();
        assert!(errors.read_line(&mut line).unwrap() > 0, "no line with '{text}'");
    }
}

#[test]
fn ctrl_c_cancels_a_long_prompt() {
    let model = long_model("long-prompt.gguf");
    let mut child = start(model, &"The little fox ran. ".repeat(2000), &["--json"]);
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    wait_for("the request is submitted", &mut errors);
    let begun = Instant::now();
    interrupt(&child);
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let object: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(object["prompt_tokens"].as_u64().unwrap() > 4000, "{}", object["prompt_tokens"]);
    assert_eq!(object["finish_reason"], "interrupted");
    // the prompt takes much longer than the pass that was running
    assert_eq!(object["generated_tokens"], 0);
    assert!(object["prefill_tokens_per_second"].is_null());
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn ctrl_c_keeps_the_text_so_far() {
    let model = long_model("long-text.gguf");
    // tokens are drawn evenly from the vocabulary: the model's end is one of thousands
    let even = ["--temperature", "100", "--top-k", "0", "--top-p", "1", "--min-p", "0"];
    let mut child = start(model, "Once", &[&even[..], &["--seed", "1"]].concat());
    let mut out = child.stdout.take().unwrap();
    let mut text = vec![0; "Once and a token".len()];
    out.read_exact(&mut text).unwrap();
    interrupt(&child);
    out.read_to_end(&mut text).unwrap();
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{errors}");
    assert!(text.starts_with(b"Once") && text.ends_with(b"\n"));
    assert!(errors.contains("interrupted, seed 1"), "{errors}");
}

/// The first press cannot end a process whose output nobody reads.
#[test]
fn a_second_ctrl_c_ends_the_process() {
    let model = long_model("second-press.gguf");
    // the prompt is printed, and is longer than a pipe holds
    let mut child = start(model, &"The little fox ran. ".repeat(5000), &[]);
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    wait_for("the request is submitted", &mut errors);
    interrupt(&child);
    wait_for("a request is cancelled", &mut errors);
    assert_eq!(child.try_wait().unwrap(), None);
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// A wait for the next line of standard input ends with Ctrl-C.
#[test]
fn ctrl_c_ends_a_wait_for_lines() {
    let bert = super::fixture("models/bert/model.gguf");
    let run = ["run", "built-in", "--raw", "--prompts", "-", "-n", "2", "--device", "cpu"];
    for args in [&run[..], &["embed", &bert, "-", "--device", "cpu"]] {
        let mut child = pelton()
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        writeln!(input, "Once upon a time").unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "{args:?}");
        let begun = Instant::now();
        interrupt(&child);
        assert_eq!(child.wait().unwrap().code(), Some(130), "{args:?}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        drop(input);
    }
}
