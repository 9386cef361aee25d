//! Model files that are cut while they are used.

use std::{
    fs::{self, OpenOptions},
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    process::Stdio,
};

use serde_json::{Value, json};

use super::{pelton, serve::Server, temporary};

const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/tiny/pelton-tiny.gguf");

fn cut(path: &Path) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(5000).unwrap();
}

/// Two models, one of which is cut while both generate: the other's text is whole and the same, and
/// the first one is loaded again once its file is.
#[test]
fn one_model_of_two() {
    let [first, second] = ["cut-first.gguf", "cut-second.gguf"].map(temporary);
    for path in [&first, &second] {
        fs::copy(TINY, path).unwrap();
    }
    let [a, b] = [&first, &second].map(|path| path.to_str().unwrap());
    let mut server = Server::start(&[a, b, "--no-repack", "--context", "2048"]);
    let body = |model: &str, tokens: usize, stream: bool| {
        json!({"model": model, "prompt": "Once", "max_tokens": tokens, "ignore_eos": true,
               "temperature": 0, "stream": stream})
    };
    let whole = server.post("/v1/completions", &body("cut-second", 300, false));
    let whole = whole["choices"][0]["text"].as_str().unwrap().to_owned();
    let before = server.post("/v1/completions", &body("cut-first", 20, false));

    let begin = |model: &str, tokens: usize| {
        let body = body(model, tokens, true).to_string();
        let mut stream = BufReader::new(server.send("POST", "/v1/completions", "", &body));
        let mut text = String::new();
        while !text.contains("\"text\":\"") {
            assert!(stream.read_line(&mut text).unwrap() > 0, "{text}");
        }
        (stream, text)
    };
    let (mut of_first, mut first_text) = begin("cut-first", 1900);
    let (mut of_second, mut second_text) = begin("cut-second", 300);
    cut(&first);
    of_second.read_to_string(&mut second_text).unwrap();
    of_first.read_to_string(&mut first_text).unwrap();
    let events = second_text.lines().filter_map(|line| line.strip_prefix("data: "));
    let events = events.filter_map(|event| serde_json::from_str::<Value>(event).ok());
    let text: String =
        events.filter_map(|event| Some(event["choices"][0]["text"].as_str()?.to_owned())).collect();
    assert_eq!(text, whole);
    let end = first_text.lines().rfind(|line| line.contains("error")).unwrap_or_default();
    assert!(end.contains("cut-first.gguf: the file was cut from"), "{first_text}");
    assert!(end.contains("while it was in use: load it again"), "{end}");

    assert!(server.child.try_wait().unwrap().is_none(), "the server has ended");
    let request = body("cut-first", 20, false);
    let (status, error) = server.request("POST", "/v1/completions", "", &request.to_string());
    assert!(status >= 500 && error.contains("cut-first.gguf"), "{status}: {error}");
    // the next request loads a file that is whole again
    fs::copy(TINY, &first).unwrap();
    let again = server.post("/v1/completions", &request);
    assert_eq!(again["choices"][0]["text"], before["choices"][0]["text"]);
    let again = server.post("/v1/completions", &body("cut-second", 300, false));
    assert_eq!(again["choices"][0]["text"], whole);
    // one that was written to without a request meanwhile is loaded again at once
    fs::copy(TINY, &second).unwrap();
    let again = server.post("/v1/completions", &body("cut-second", 300, false));
    assert_eq!(again["choices"][0]["text"], whole);
}

/// A run ends with a sentence and the code of errors, not by a signal.
#[test]
fn a_run() {
    let path = temporary("cut-run.gguf");
    fs::copy(TINY, &path).unwrap();
    let mut command = pelton();
    command.args([
        "run",
        "--raw",
        "--no-repack",
        "--device",
        "cpu",
        "--threads",
        "1",
        "-c",
        "4096",
    ]);
    command.args(["-n", "4000", "--logit-bias", "0=-inf", "-m", path.to_str().unwrap(), "Once"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0]).unwrap();
    cut(&path);
    std::io::copy(&mut out, &mut std::io::sink()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cut-run.gguf: the file was cut from"), "{said}");
    std::io::stdout().flush().unwrap();
}
