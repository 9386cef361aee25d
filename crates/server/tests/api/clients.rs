//! Official clients in Python, each with a file of its own.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use pelton_testing::{Need, skip};

use crate::harness::shared;

/// Runs a client's file with the address of a server.
fn client(package: &str) {
    let python = std::env::var_os("PELTON_PYTHON").unwrap_or_else(|| "python3".into());
    let found = Command::new(&python)
        .args(["-c", &format!("import {package}")])
        .stderr(Stdio::null())
        .status();
    if !found.is_ok_and(|status| status.success()) {
        skip(Need::Python, format_args!("{} has no package {package}", python.display()));
        return;
    }
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/clients/{package}_client.py"));
    let output = Command::new(&python)
        .arg(file)
        .arg(format!("http://{}", shared().address))
        .env_remove("HTTP_PROXY")
        .env_remove("http_proxy")
        .env("NO_PROXY", "*")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("all checks passed"), "{text}");
}

#[test]
fn openai() {
    client("openai");
}

#[test]
fn anthropic() {
    client("anthropic");
}

#[test]
fn ollama() {
    client("ollama");
}
