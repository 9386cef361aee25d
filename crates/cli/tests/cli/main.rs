//! The program as its users call it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

mod bench;
#[cfg(unix)]
mod changed_files;
mod chat;
#[cfg(target_os = "linux")]
mod chat_terminal;
mod chat_tools;
mod compare;
mod doctor;
mod effort;
mod errors;
mod files;
#[cfg(target_os = "linux")]
mod foreign;
mod gpu;
mod hub;
mod imatrix;
#[cfg(unix)]
mod interrupt;
mod logging;
#[cfg(unix)]
mod names;
#[cfg(unix)]
mod newcomer;
#[cfg(unix)]
mod outputs;
mod peers;
mod perplexity;
mod plan;
#[cfg(target_os = "linux")]
mod pty;
mod quantize;
mod run;
#[cfg(unix)]
mod serve;
#[cfg(unix)]
mod serve_logs;
#[cfg(unix)]
mod sockets;
#[cfg(target_os = "linux")]
mod standard_error;
mod template;
mod transcribe;
mod transcripts;
mod values;
mod vision;

use std::{
    path::PathBuf,
    process::{Command, Output},
};

/// Elsewhere there is no driver of pseudo-terminals.
#[cfg(not(target_os = "linux"))]
#[test]
fn chats_on_a_terminal() {
    pelton_testing::skip(pelton_testing::Need::Capability, "pseudo-terminals are driven on Linux");
}

/// Keeps a command from every network and from the models of this machine.
fn alone(command: &mut Command) {
    for variable in ["MODEL_ENDPOINT", "HF_TOKEN", "HF_TOKEN_PATH", "HF_HUB_OFFLINE"] {
        command.env_remove(variable);
    }
    // those of other programs set options
    let prefixes = ["LLAMA_", "OLLAMA_", "VLLM_"];
    for (name, _) in std::env::vars_os() {
        if prefixes.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command
        .env("HF_ENDPOINT", "http://127.0.0.1:1")
        .env("HF_HUB_CACHE", temporary("hub-cache"))
        .env("XDG_CACHE_HOME", temporary("cache"))
        .env("OLLAMA_MODELS", temporary("ollama-models"));
}

fn pelton() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pelton"));
    command.env_remove("RUST_LOG");
    alone(&mut command);
    command
}

/// The output of a command. `pelton run` continues texts here, where it would answer them without
/// --raw.
fn run(args: &[&str]) -> Output {
    let mut command = pelton();
    command.args(args);
    let is_answered = ["--system", "--raw"].iter().any(|flag| args.contains(flag));
    if args.first() == Some(&"run") && !is_answered {
        command.arg("--raw");
    }
    command.output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Standard error of a command that fails with this exit code.
fn refused(args: &[&str], code: i32) -> String {
    let output = run(args);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
    assert!(output.stdout.is_empty(), "{args:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn fixture(name: &str) -> String {
    format!("{}/../../tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn temporary(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn json(args: &[&str]) -> serde_json::Value {
    serde_json::from_str(&stdout(&run(args))).unwrap()
}
