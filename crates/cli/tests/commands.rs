//! The program as its users call it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

use std::{
    io::{Read, Write},
    path::PathBuf,
    process::{Command, Output, Stdio},
};

fn pelton() -> Command {
    Command::new(env!("CARGO_BIN_EXE_pelton"))
}

fn run(args: &[&str]) -> Output {
    pelton().args(args).output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What a failed command said on standard error.
fn refused(args: &[&str], code: i32) -> String {
    let output = run(args);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
    assert!(output.stdout.is_empty(), "{args:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn fixture(name: &str) -> String {
    format!("{}/../../tests/fixtures/logits/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn temporary(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn json(args: &[&str]) -> serde_json::Value {
    serde_json::from_str(&stdout(&run(args))).unwrap()
}

const STORY: [&str; 6] = ["run", "Once upon a time", "-n", "30", "--seed", "5"];

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
        .args(["run", "-", "-n", "5", "--seed", "1"])
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

#[test]
fn a_closed_pipe_ends_quietly() {
    let mut child = pelton()
        .args(["inspect", "built-in", "--tensors", "--plan"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((child.wait().unwrap().code(), said.as_str()), (Some(0), ""));
}

/// Ctrl-C ends a text after the current token, with its statistics.
#[cfg(unix)]
#[test]
fn an_interrupt_still_tells_the_statistics() {
    let mut child = pelton()
        .args(["run", "Once upon a time", "-n", "900", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    // the signal may come when the text has ended by itself: then there is nothing to interrupt
    let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success());
    let object: serde_json::Value = serde_json::from_str(&text).unwrap();
    let reason = object["finish_reason"].as_str().unwrap();
    assert!(["interrupted", "end"].contains(&reason), "{text}");
    assert!(object["generated_tokens"].as_u64().unwrap() > 0);
}

#[test]
fn inspect() {
    let text = stdout(&run(&["inspect", &fixture("llama.gguf"), "--tensors", "--plan"]));
    for part in ["llama.block_count", "blk.0.attn_q.weight", "F32", "norm_linear", "layer × 2"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let object = json(&["inspect", &fixture("qwen3.gguf"), "--tensors", "--plan", "--json"]);
    assert_eq!(object["metadata"]["general.architecture"], "qwen3");
    assert!(object["tensors"].as_array().unwrap().len() > 20);
    assert!(object["plan"][0].as_str().unwrap().starts_with("qwen3"));
}

#[test]
fn tokenize() {
    let ids = stdout(&run(&["tokenize", "built-in", "Once upon a time", "--ids"]));
    let ids: Vec<u64> = ids.split_whitespace().map(|id| id.parse().unwrap()).collect();
    let object = json(&["tokenize", "built-in", "Once upon a time", "--json"]);
    let same: Vec<u64> =
        object.as_array().unwrap().iter().map(|t| t["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, same);
    let special = stdout(&run(&["tokenize", "built-in", "Once upon a time", "--ids", "--special"]));
    assert_eq!(special.split_whitespace().count(), ids.len() + 1, "a token for the beginning");
}

/// The file is what numpy's format says, and holds what transformers computes.
#[test]
fn logits() {
    let path = temporary("logits.npy");
    let expected = std::fs::read(fixture("qwen2.logits.npy")).unwrap();
    let ids = std::fs::read(fixture("qwen2.ids.npy")).unwrap();
    let ids: Vec<String> = ids[ids.len() - 64 * 4..]
        .as_chunks()
        .0
        .iter()
        .map(|id| u32::from_le_bytes(*id).to_string())
        .collect();
    let output = run(&[
        "logits",
        &fixture("qwen2.gguf"),
        "--kv",
        "f32",
        "--ids",
        &ids.join(","),
        "-o",
        path.to_str().unwrap(),
    ]);
    stdout(&output);
    let got = std::fs::read(path).unwrap();
    assert_eq!(got[..10], expected[..10], "magic, version and length of the header");
    let header = 10 + usize::from(u16::from_le_bytes([got[8], got[9]]));
    assert_eq!(got[..header], expected[..header]);
    let numbers = |bytes: &[u8]| -> Vec<f32> {
        bytes[header..].as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
    };
    for (got, expected) in numbers(&got).iter().zip(numbers(&expected)) {
        assert!((got - expected).abs() < 1e-3);
    }
}

#[test]
fn bench() {
    let args = ["bench", "built-in", "-p", "8", "-n", "4", "-r", "2", "--threads", "1"];
    let rows = json(&[&args[..], &["-o", "json"]].concat());
    let tests: Vec<_> = rows.as_array().unwrap().iter().map(|r| r["test"].clone()).collect();
    assert_eq!(tests, ["pp8", "tg4"]);
    assert!(rows[0]["runs"].as_array().unwrap().iter().all(|r| r.as_f64().unwrap() > 0.0));
    let table = stdout(&run(&args));
    assert!(table.lines().count() == 4 && table.contains("pp8") && table.contains('±'), "{table}");
    let csv = stdout(&run(&[&args[..], &["-o", "csv"]].concat()));
    assert!(csv.starts_with("model,") && csv.lines().count() == 3, "{csv}");
    let deep = json(&[&args[..], &["--depth", "20", "-o", "json"]].concat());
    assert_eq!((&deep[0]["test"], &deep[1]["test"]), (&"pp8 @ d20".into(), &"tg4 @ d20".into()));
}

/// Both forms name the same devices, as many as there are, and nothing is said beside them.
#[cfg(feature = "gpu")]
#[test]
fn devices() {
    let output = pelton().arg("devices").env_remove("XDG_RUNTIME_DIR").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let text = stdout(&output);
    let list = json(&["devices", "--json"]);
    let list = list.as_array().unwrap();
    for (i, device) in list.iter().enumerate() {
        let name = device["name"].as_str().unwrap();
        assert_eq!(device["device"], format!("gpu:{i}"));
        assert!(text.contains(&format!("gpu:{i}  {name}\n")), "{text}");
        assert!(device["subgroup_widths"][0].as_u64() <= device["subgroup_widths"][1].as_u64());
    }
    match list.len() {
        0 => assert!(text.starts_with("no GPU was found"), "{text}"),
        count => assert_eq!(text.lines().count(), 3 * count, "{text}"),
    }
}

#[test]
fn profile_needs_a_gpu() {
    let text = refused(&["profile", "built-in", "--device", "cpu"], 1);
    assert_eq!(text, "error: this device cannot tell the time of single steps\n");
}

#[test]
fn errors_are_one_sentence_and_a_hint() {
    let text = refused(&["run", "nothing.gguf", "Hello"], 1);
    assert!(text.starts_with("error: nothing.gguf") && text.contains("\nhint: "), "{text}");
    assert_eq!(text.lines().count(), 2, "{text}");

    let path = temporary("broken.gguf");
    std::fs::write(&path, b"GGUF\x03\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff").unwrap();
    let text = refused(&["inspect", path.to_str().unwrap()], 1);
    assert!(text.contains("broken.gguf"), "{text}");

    let text = refused(&["run", "Hello", "--context", "100000000"], 1);
    assert!(text.contains("context of 100000000"), "{text}");
    let text = refused(&["run", "Hello", "--top-p", "7"], 1);
    assert!(text.contains("top-p is 7, expected 0 to 1"), "{text}");
    let text = refused(&["run", &fixture("llama.gguf"), "Hello"], 1);
    assert!(text.contains("no vocabulary"), "{text}");
    let text = refused(&["logits", "built-in", "--ids", "99999999", "-o", "/nowhere/x.npy"], 1);
    assert!(text.contains("/nowhere/x.npy"), "{text}");
    let text = refused(&["run", "Hello", "--device", "gpu:99"], 1);
    assert!(text.starts_with("error: ") && text.contains("\nhint: "), "{text}");
    assert_eq!(text.lines().count(), 2, "{text}");
}

#[test]
fn wrong_usage_is_exit_code_2() {
    for args in [
        &["run"][..],
        &["run", "a", "b", "c"],
        &["run", "a", "--temperature", "hot"],
        &["run", "a", "--threads", "0"],
        &["run", "a", "--device", "nonsense"],
        &["bench"],
        &["logits", "built-in", "--ids", "1,x", "-o", "a.npy"],
        &["frobnicate"],
    ] {
        let text = refused(args, 2);
        assert!(text.contains("Usage") || text.contains("error"), "{text}");
    }
}
