//! The log of `pelton serve`: refused requests with their reasons, and one form of lines.

use std::fs;

use serde_json::Value;

use super::{pelton, serve::Server, temporary};

/// The log lines of a server for some requests.
fn log(args: &[&str]) -> String {
    let server = Server::start(args);
    server.request("GET", "/v1/nothing?secret=1", "", "");
    server.request("POST", "/v1/completions", "", r#"{"prompt": 1.5}"#);
    server.request("POST", "/v1/completions", "", r#"{"prompt": "Once", "max_tokens": 1}"#);
    let (status, body) = server.request("GET", "/v1/models", "origin: http://page.example\r\n", "");
    assert!(status == 403 && body.contains("--cors http://page.example"), "{body}");
    server.request("GET", "/v1/models", "origin: http://a b\x1b[2J\r\n", "");
    server.request("GET", "/\u{202e}%1b%0aforged", "", "");
    server.request("DELETE", "/v1/models", "", "");
    server.send("GET", "/ HTTP/9", "", "");
    server.send("", "", "\x01\x02\r\n", "");
    // its client leaves before the answer
    let long = r#"{"prompt": "Once", "max_tokens": 900, "ignore_eos": true}"#;
    let stream = server.send("POST", "/v1/completions", "", long);
    std::thread::sleep(std::time::Duration::from_millis(100));
    drop(stream);
    // one more, so that those before it are logged
    server.get("/v1/models");
    server.stop()
}

#[test]
fn every_refused_request_is_logged_with_its_reason() {
    let log = log(&[]);
    for parts in [
        &[
            "method=\"GET\"",
            "path=\"/v1/nothing\"",
            "status=404",
            "reason=",
            "there is no such path",
        ][..],
        &["method=\"POST\"", "path=\"/v1/completions\"", "status=400", "reason=", "prompt is 1.5"],
        &["path=\"/v1/models\"", "status=403", "--cors http://page.example"],
        &["path=\"/v1/completions\"", "status=499", "reason=\"the client has gone\""],
        &["method=\"DELETE\"", "status=405", "no method DELETE"],
        &["status=400", "reason=", "no request"],
    ] {
        let has = |line: &str| parts.iter().all(|part| line.contains(part));
        assert!(log.lines().any(has), "{parts:?}: {log}");
    }
    assert!(
        !log.contains("secret") && !log.contains('\u{1b}') && !log.contains('\u{202e}'),
        "{log}"
    );
    // one form: a time, a level and a target
    for line in log.lines() {
        let mut words = line.split_whitespace();
        assert!(words.next().unwrap().ends_with('Z'), "{line}");
        assert!(["INFO", "WARN", "ERROR"].contains(&words.next().unwrap()), "{line}");
        assert!(words.next().unwrap().ends_with(':'), "{line}");
    }
}

#[test]
fn a_log_in_json_has_nothing_else() {
    let file = temporary("json.toml");
    fs::write(&file, "log-format = \"json\"\n").unwrap();
    let path = file.to_str().unwrap();
    for args in [&["--log-format", "json"][..], &["--config", path]] {
        for line in log(args).lines() {
            let line: Value = serde_json::from_str(line).unwrap_or_else(|error| {
                panic!("{error}: {line}");
            });
            assert!(line["timestamp"].is_string() && line["level"].is_string(), "{line}");
        }
    }
    // a server that does not start, and a list that is none
    fs::write(&file, "log-format = \"json\"\nport = \"x\"\n").unwrap();
    for args in [
        &["/nowhere/at/all.gguf", "--log-format", "json"][..],
        &["--host", "0.0.0.0", "--log-format", "json"],
        &["--config", path, "--log-format", "json"],
    ] {
        let mut command = pelton();
        command
            .arg("serve")
            .args(args)
            .env("RUST_LOG", "pelton=loud")
            .stdin(std::process::Stdio::null());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.last().unwrap()["level"], "ERROR", "{text}");
        assert!(lines.iter().any(|line| line["message"].as_str().unwrap().contains("RUST_LOG")));
    }
}

/// A line of a log without its time.
fn timeless(line: &str) -> String {
    match serde_json::from_str::<Value>(line) {
        Ok(mut line) => {
            line["timestamp"].take();
            line.to_string()
        }
        Err(_) => line.split_once(' ').unwrap().1.to_owned(),
    }
}

/// A file has the lines of standard error after those that it had.
#[test]
fn a_log_is_kept_in_a_file() {
    let file = temporary("kept.log");
    for format in ["text", "json"] {
        fs::write(&file, "before\n").unwrap();
        let log = log(&["--log-file", file.to_str().unwrap(), "--log-format", format]);
        let kept = fs::read_to_string(&file).unwrap();
        let kept: Vec<_> = kept.strip_prefix("before\n").unwrap().lines().map(timeless).collect();
        let log: Vec<_> = log.lines().map(timeless).collect();
        // those up to the server's address are read by its start
        assert!(log.len() > 9 && kept.ends_with(&log), "{kept:#?}, {log:#?}");
        assert!(kept.iter().any(|line| line.contains("listening on")), "{kept:#?}");
    }
    let mut command = pelton();
    let output = command.args(["serve", "--log-file", "/nowhere/at/all.log"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("--log-file /nowhere/at/all.log could not be opened"), "{text}");
}

#[test]
fn a_model_that_is_missing_is_named_once() {
    for name in ["nosuch.gguf", "/nowhere/at/all.gguf"] {
        let mut command = pelton();
        let output = command.args(["serve", name, "--port", "0"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        let errors = text.lines().filter(|line| line.contains("error") || line.contains("ERROR"));
        assert_eq!(errors.count(), 1, "{text}");
        assert_eq!(text.matches("No such file").count(), 1, "{text}");
    }
}
