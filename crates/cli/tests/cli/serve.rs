//! `pelton serve` as a program: its flags, its configuration file, its signals.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, TcpStream},
    process::{Child, ChildStderr, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{pelton, temporary};

const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/tiny/pelton-tiny.gguf");

/// A server in a process of its own, on any port.
pub(super) struct Server {
    pub(super) child: Child,
    errors: BufReader<ChildStderr>,
    address: String,
}

impl Server {
    pub(super) fn start(args: &[&str]) -> Self {
        Self::start_with(args, &[])
    }

    /// A server that has told that it loads its models.
    fn loading(args: &[&str]) -> Self {
        let mut child = command(args).spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let line = wait_for("answers 503 until then", &mut errors);
        let address = line.split_once("; http://").unwrap().1.split(' ').next().unwrap().to_owned();
        Self { child, errors, address }
    }

    pub(super) fn start_with(args: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut child = command(args).envs(variables.iter().copied()).spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let line = wait_for("listening on http://", &mut errors);
        let address = line.trim().rsplit_once("http://").unwrap().1;
        // in JSON a quotation mark follows
        let address = address.split('"').next().unwrap().to_owned();
        Self { child, errors, address }
    }

    /// Ends the server; the rest of its log.
    pub(super) fn stop(mut self) -> String {
        self.signal("-TERM");
        let mut log = String::new();
        self.errors.read_to_string(&mut log).unwrap();
        log
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(status.unwrap().success());
    }

    /// Sends a request without waiting for the response.
    pub(super) fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let (host, len) = (&self.address, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{headers}\
             content-type: application/json\r\ncontent-length: {len}\r\n\r\n{body}"
        );
        // the server may answer and close before it has read everything
        let _ = stream.write_all(request.as_bytes());
        stream
    }

    /// The most memory that the process has had, in bytes.
    #[cfg(target_os = "linux")]
    fn peak(&self) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
    }

    /// The status and the body of a response.
    pub(super) fn request(
        &self,
        method: &str,
        path: &str,
        headers: &str,
        body: &str,
    ) -> (u16, String) {
        let mut stream = self.send(method, path, headers, body);
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), body.to_owned())
    }

    pub(super) fn get(&self, path: &str) -> Value {
        let (status, body) = self.request("GET", path, "", "");
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> Value {
        let (status, body) = self.request("POST", path, "", &body.to_string());
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    /// Begins a long stream and returns it when its first token is there.
    fn stream(&self, tokens: usize) -> BufReader<TcpStream> {
        let body = json!({"prompt": "Once", "max_tokens": tokens, "ignore_eos": true,
                          "stream": true});
        let stream = self.send("POST", "/v1/completions", "", &body.to_string());
        let mut stream = BufReader::new(stream);
        wait_for("\"text\":\"", &mut stream);
        stream
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // it may have ended
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(args: &[&str]) -> Command {
    let mut command = pelton();
    command.args(["serve", "--device", "cpu", "--threads", "1", "--port", "0"]).args(args);
    command.env_remove("PELTON_API_KEY").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Standard error of a server that does not start.
fn refused(args: &[&str]) -> String {
    let output = command(args).output().unwrap();
    // 2 if the command line is wrong by itself
    assert!(matches!(output.status.code(), Some(1 | 2)), "{args:?}: {output:?}");
    let text = String::from_utf8(output.stderr).unwrap();
    // log lines may come before
    assert!(text.lines().any(|line| line.starts_with("error: ")), "{text}");
    assert!(!text.contains("panicked"), "{text}");
    text
}

/// The first line with a text.
fn wait_for(text: &str, lines: &mut impl BufRead) -> String {
    let mut line = String::new();
    while !line.contains(text) {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "no line with {text:?}");
    }
    line
}

#[test]
fn flags() {
    let alias = format!("quick={TINY}");
    let server = Server::start(&[
        TINY,
        "built-in",
        "--alias",
        &alias,
        "--alias",
        "own=built-in",
        "--context",
        "256",
        "--parallel",
        "3",
        "--max-body",
        "2000",
        "--metrics-names",
        "vllm",
        "--log-format",
        "json",
        "--requests-per-minute",
        "1000",
        "--cors",
        "https://page.example",
    ]);
    let models = server.get("/v1/models");
    let ids: Vec<&str> =
        models["data"].as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["pelton-tiny", "quick", "built-in", "own"]);
    assert_eq!(models["data"][0]["aliases"], json!(["quick"]));
    assert_eq!(models["data"][3]["root"], "built-in");
    assert_eq!(models["data"][0]["max_model_len"], 256);
    for name in ["pelton-tiny", "quick", "built-in", "own"] {
        let body = json!({"model": name, "prompt": "Once", "max_tokens": 2, "temperature": 0});
        assert_eq!(server.post("/v1/completions", &body)["usage"]["completion_tokens"], 2);
    }
    let (status, body) =
        server.request("POST", "/v1/completions", "", r#"{"model": "tiny", "prompt": "a"}"#);
    assert_eq!(status, 404, "{body}");
    assert_eq!(server.get("/slots").as_array().unwrap().len(), 6);
    let (_, metrics) = server.request("GET", "/metrics", "", "");
    assert!(metrics.contains("\nvllm:num_requests_running{"), "{metrics}");
    let (status, body) = server.request("POST", "/v1/completions", "", &" ".repeat(3000));
    assert_eq!(status, 413, "{body}");
    let (status, _) = server.request("GET", "/v1/models", "origin: https://page.example\r\n", "");
    assert_eq!(status, 200);
    let (status, _) = server.request("GET", "/v1/models", "origin: https://other.example\r\n", "");
    assert_eq!(status, 403);
    let log = server.stop();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let paths = lines.iter().filter_map(|line| line["route"].as_str());
    assert_eq!(paths.filter(|path| *path == "/v1/completions").count(), 6, "{log}");
}

#[test]
fn a_configuration_file() {
    let file = temporary("serve.toml");
    let text = format!(
        "models = [{TINY:?}]\nalias = [\"a=built-in\"]\ncontext = 128\nparallel = 2\nlazy = true\n\
         allow-public = false\nshutdown-timeout = 3\nport = 1\n"
    );
    fs::write(&file, text).unwrap();
    // the port of the command line is the one that counts
    let server = Server::start(&["--config", file.to_str().unwrap(), "--parallel", "1"]);
    let models = server.get("/v1/models");
    assert_eq!(models["data"][0]["status"], "unloaded");
    assert_eq!(models["data"].as_array().unwrap().len(), 3);
    server.post("/v1/completions", &json!({"model": "a", "prompt": "Once", "max_tokens": 1}));
    let models = server.get("/v1/models");
    assert_eq!(models["data"][1]["status"], "loaded");
    assert_eq!(models["data"][1]["max_model_len"], 128);
    assert_eq!(server.get("/slots").as_array().unwrap().len(), 1);
    for (text, parts) in [
        ("port = ", &["line 1"][..]),
        ("models = [{}]", &["line 1", "models is a table"]),
        ("\nconfig = \"other.toml\"", &["line 2", "config is the name of another file"]),
        ("lazy = true\n# port\nport = \"x\"", &["line 3", "port: invalid value 'x'"]),
        ("colour = 1", &["line 1", "colour is no key"]),
        ("prot = 8080", &["line 1", "prot is no key, did you mean port?"]),
        ("tls-cert = \"a.pem\"", &["--tls-key"]),
    ] {
        fs::write(&file, text).unwrap();
        let error = refused(&["--config", file.to_str().unwrap()]);
        for part in ["serve.toml"].iter().chain(parts) {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    assert!(refused(&["--config", "/nowhere/at/all.toml"]).contains("/nowhere/at/all.toml"));
}

#[test]
fn a_first_signal_lets_requests_end() {
    for name in ["-INT", "-TERM"] {
        let mut server = Server::start(&["--context", "1024"]);
        let mut stream = server.stream(600);
        server.signal(name);
        wait_for("the server stops", &mut server.errors);
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        assert!(rest.contains("\"finish_reason\":\"length\""), "{rest}");
        assert!(rest.contains("data: [DONE]"), "{rest}");
        assert_eq!(server.child.wait().unwrap().code(), Some(0), "{name}");
    }
}

#[test]
fn a_second_signal_ends_the_process() {
    let model = super::interrupt::long_model("served.gguf");
    let mut server = Server::start(&[model.to_str().unwrap(), "--context", "32768"]);
    let stream = server.stream(32_000);
    server.signal("-INT");
    wait_for("the server stops", &mut server.errors);
    assert_eq!(server.child.try_wait().unwrap(), None);
    // the handler of the second one is there shortly after the line
    std::thread::sleep(Duration::from_millis(100));
    let begun = Instant::now();
    server.signal("-TERM");
    assert_eq!(server.child.wait().unwrap().code(), Some(130));
    assert!(begun.elapsed() < Duration::from_secs(5));
    let _ = stream.get_ref().shutdown(Shutdown::Both);
}

#[test]
fn requests_are_cut_off_after_the_timeout_of_a_shutdown() {
    let model = super::interrupt::long_model("cut.gguf");
    let args = [model.to_str().unwrap(), "--context", "32768", "--shutdown-timeout", "1"];
    let mut server = Server::start(&args);
    let _stream = server.stream(32_000);
    let begun = Instant::now();
    server.signal("-INT");
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    assert!((1..15).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
}

#[test]
fn keys_and_public_addresses() {
    let error = refused(&["--host", "0.0.0.0", "--lazy"]);
    assert!(error.contains("0.0.0.0 is a public address"), "{error}");
    drop(Server::start(&["--host", "0.0.0.0", "--lazy", "--allow-public"]));

    let file = temporary("keys.txt");
    let path = file.to_str().unwrap();
    fs::write(&file, "# keys\nalice first-secret\nbatch second-secret priority=-5\n").unwrap();
    let variables = [("PELTON_API_KEY", "third-secret")];
    let server = Server::start_with(&["--host", "0.0.0.0", "--api-key-file", path], &variables);
    let status = |headers: &str| server.request("GET", "/v1/models", headers, "").0;
    assert_eq!(status(""), 401);
    assert_eq!(status("authorization: Bearer alice\r\n"), 401);
    for secret in ["first-secret", "second-secret", "third-secret"] {
        assert_eq!(status(&format!("authorization: Bearer {secret}\r\n")), 200, "{secret}");
    }
    let log = server.stop();
    assert!(log.contains("alice") && log.contains("batch") && !log.contains("secret"), "{log}");

    let server = Server::start(&["--api-key", "#fourth", "--api-key", "fifth"]);
    let status = |headers: &str| server.request("GET", "/v1/models", headers, "").0;
    assert_eq!(status(""), 401);
    for secret in ["#fourth", "fifth"] {
        assert_eq!(status(&format!("authorization: Bearer {secret}\r\n")), 200, "{secret}");
    }
    for (key, part) in
        [("", "expected a key"), (" ", "expected a key"), ("my secret", "a character")]
    {
        let error = refused(&["--api-key", key, "--lazy"]);
        assert!(error.contains(part) && !error.contains("my secret"), "{error}");
    }

    for (text, part) in [("# nothing\n", "no API key"), ("a b c\n", "line 1")] {
        fs::write(&file, text).unwrap();
        let error = refused(&["--api-key-file", path, "--lazy"]);
        assert!(error.contains(part) && !error.contains("a b c"), "{error}");
    }
    assert!(refused(&["--api-key-file", "/nowhere/keys"]).contains("/nowhere/keys"));
}

#[test]
fn a_draft_model() {
    let body = json!({"prompt": "Once upon a time", "max_tokens": 40, "temperature": 0});
    let plain = Server::start(&[TINY, "--speculate", "off"]).post("/v1/completions", &body);
    let args = [TINY, "--draft", TINY, "--speculate", "always"];
    let drafted = Server::start(&args).post("/v1/completions", &body);
    assert_eq!(plain["choices"], drafted["choices"]);
    let accepted = |json: &Value| {
        json["usage"]["completion_tokens_details"]["accepted_prediction_tokens"].as_u64().unwrap()
    };
    assert_eq!(accepted(&plain), 0);
    // the draft model is the model
    assert!(accepted(&drafted) > 10, "{drafted}");
    assert!(refused(&[TINY, "--draft", "/nowhere/draft.gguf"]).contains("draft.gguf"));
}

/// The context is the model's own unless there is a shorter one, whatever is asked for.
#[test]
fn contexts() {
    let long = super::interrupt::long_model("context.gguf");
    let server = Server::start(&[long.to_str().unwrap(), "built-in"]);
    let models = server.get("/v1/models");
    assert_eq!(models["data"][0]["max_model_len"], 32_768);
    assert_eq!(models["data"][1]["max_model_len"], 1024);
    drop(server);
    let server = Server::start(&[long.to_str().unwrap(), "built-in", "-c", "16384"]);
    let models = server.get("/v1/models");
    assert_eq!(models["data"][0]["max_model_len"], 16_384);
    assert_eq!(models["data"][1]["max_model_len"], 1024);
    let long = json!({"model": "built-in", "prompt": "one two three ".repeat(2000)}).to_string();
    let (status, body) = server.request("POST", "/v1/completions", "", &long);
    assert_eq!(status, 400);
    assert!(body.contains("--context"), "{body}");
}

/// A signal ends a server whose load does not: its template is a pipe that nobody writes.
#[test]
fn signals_during_a_load() {
    for (name, second) in [("-INT", false), ("-TERM", true)] {
        let pipe = temporary(&format!("pipe{name}.jinja"));
        let _ = fs::remove_file(&pipe);
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let mut server = Server::loading(&["--chat-template", pipe.to_str().unwrap()]);
        assert_eq!(server.request("GET", "/health", "", "").0, 503);
        assert_eq!(server.get("/live")["status"], "ok");
        let begun = Instant::now();
        server.signal(name);
        if second {
            // the first one may have ended it
            let _ = Command::new("kill").args([name, &server.child.id().to_string()]).output();
        }
        let code = server.child.wait().unwrap().code();
        assert!(code == Some(0) || (second && code == Some(130)), "{code:?}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        fs::remove_file(&pipe).unwrap();
    }
}

#[test]
fn a_model_that_cannot_be_loaded() {
    let error = refused(&["/nowhere/at/all.gguf"]);
    assert!(error.contains("/nowhere/at/all.gguf"), "{error}");
}

/// A body of millions of values takes no more memory than a long text.
#[cfg(target_os = "linux")]
#[test]
fn memory_of_bodies() {
    let server = Server::start(&[]);
    let before = server.peak();
    for element in ["[],", "{},", "{\"a\":0},"] {
        let body = format!("{{\"prompt\": [{}0]}}", element.repeat((30 << 20) / element.len()));
        assert_eq!(server.request("POST", "/v1/completions", "", &body).0, 400);
    }
    // the body itself, in a buffer that has grown, and 64 MiB of values
    let grown = server.peak() - before;
    assert!(grown < 200 << 20, "{} MiB", grown >> 20);
}

/// Whole copies on the CPU, whose threads they share.
#[test]
fn replicas() {
    let server =
        Server::start(&["built-in", "--replicas", "2", "--device", "cpu", "--threads", "3"]);
    let info = server.get("/server_info");
    assert_eq!(info["dp_size"], 2);
    let device = |i: usize| info["replicas"][i]["device"].as_str().unwrap();
    assert_eq!([device(0), device(1)], ["cpu, 1 thread", "cpu, 2 threads"]);
    for (words, expected) in [
        (&["--replicas", "0"][..], "--replicas is 0, expected 1 to 64"),
        (&["--replicas", "3", "--device", "gpu:0,gpu:1"], "3 replicas on gpu:0,gpu:1"),
        (&["-dp", "2", "--device", "cpu", "--split", "3,2"], "--split shares the layers"),
    ] {
        let said = refused(&[&["built-in"], words].concat());
        assert!(said.contains(expected), "{said}");
    }
}

/// A template by its name is that of `pelton template`.
#[test]
fn a_named_template() {
    let server = Server::start(&["built-in", "--chat-template", "chatml"]);
    let body = json!({"messages": [{"role": "user", "content": "hi"}]});
    let answer = server.post("/apply-template", &body);
    let prompt = answer["prompt"].as_str().unwrap();
    assert_eq!(prompt, "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
    let said = refused(&["built-in", "--chat-template", "nothing"]);
    assert!(said.contains("chatml, llama3"), "{said}");
}

/// A folder of BERT without a pooling gives the same embeddings as by the command, if one is given.
#[test]
fn embeddings_are_those_of_the_command() {
    let folder = temporary("served-bert-without-pooling");
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"] {
        let from =
            format!("{}/../../tests/fixtures/models/bert/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::copy(from, folder.join(name)).unwrap();
    }
    let folder = folder.to_str().unwrap();
    let texts = ["hello world", "a"];
    let said = refused(&[folder]);
    assert!(said.contains("states none, expected mean"), "{said}");
    let pooling = ["--pooling", "mean"];
    let embed = ["embed", folder, texts[0], texts[1], "--device", "cpu", "--json"];
    let output = pelton().args(embed).args(pooling).output().unwrap();
    let own: Value = serde_json::from_slice(&output.stdout).unwrap();
    let alias = format!("bert={folder}");
    let server = Server::start(&[&[folder, "--alias", &alias], &pooling[..]].concat());
    let found = server.post("/v1/embeddings", &json!({"model": "bert", "input": texts}));
    for (i, text) in texts.iter().enumerate() {
        let values = |of: &Value| -> Vec<f32> {
            let values = of["data"][i]["embedding"].as_array().or(of["embeddings"][i].as_array());
            values
                .unwrap_or_else(|| panic!("{of}"))
                .iter()
                .map(|v| v.as_f64().unwrap() as f32)
                .collect()
        };
        let (own, found) = (values(&own), values(&found));
        assert!(own.len() > 8 && own == found, "{text}: {own:?} {found:?}");
    }
}
