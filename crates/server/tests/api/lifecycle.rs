//! Loads, unloads, shutdown, bodies, requests whose clients go away.

use std::{
    io::{Read, Write},
    time::{Duration, Instant},
};

use pelton_server::ModelConfig;
use serde_json::json;

use crate::harness::{TestServer, read, start};

fn wait(what: &str, mut ready: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !ready() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn runs(server: &TestServer) -> bool {
    !server.get("/metrics").body.contains("pelton_requests_running{model=\"built-in\"} 0\n")
}

/// A client that hangs up pays for its tokens, and has a line in the metrics.
#[test]
fn abandoned_requests_are_charged() {
    let server = start(|config| {
        config.load = config.load.clone().context(1024);
        config.limits.tokens_per_minute = Some(20);
    });
    let body = json!({"prompt": "Once", "max_tokens": 1000, "ignore_eos": true}).to_string();
    let mut stream = server.connect();
    stream.write_all(&server.head("POST", "/v1/completions", &[], body.len())).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let generated = || {
        let text = server.get("/metrics").body;
        let line = text.lines().find(|line| line.starts_with("pelton_generation_tokens_total{"));
        line.unwrap().rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    wait("the request generates nothing", || generated() > 40.0);
    // others see what a running request uses
    let other = json!({"prompt": "Once", "max_tokens": 1});
    assert_eq!(server.post("/v1/completions", &other).status, 429);
    drop(stream);
    wait("the request is not logged", || {
        let gone = "pelton_http_requests_total{route=\"/v1/completions\",status=\"499\"} 1\n";
        server.get("/metrics").body.contains(gone)
    });
    wait("the request runs on", || !runs(&server));
    assert_eq!(server.post("/v1/completions", &other).status, 429);
}

#[test]
fn bodies_of_many_values() {
    let server = crate::harness::shared();
    let list = |element: &str, count: usize| format!("[{}0]", format!("{element},").repeat(count));
    for element in ["[]", "{}"] {
        let body = format!("{{\"prompt\": {}}}", list(element, 10_000_000));
        let answer = server.send("POST", "/v1/completions", &[], body.as_bytes());
        assert_eq!(answer.status, 400);
        assert!(answer.body.contains("more values"), "{}", answer.body);
    }
    let tokens = format!("{{\"tokens\": {}}}", list("7", 100_000));
    let answer = server.send("POST", "/detokenize", &[], tokens.as_bytes());
    assert!(answer.ok()["content"].as_str().unwrap().len() >= 100_000);
}

/// A body that takes all memory for bodies is waited for, and small bodies are not kept out.
#[test]
fn bodies_wait_for_memory() {
    let server = start(|config| {
        config.limits.body_bytes = 1 << 20;
        config.limits.body_memory = 0;
    });
    // bodies that are not complete take the memory for large ones
    let part = vec![b' '; (1 << 20) - 1];
    let slow: Vec<_> = (0..66)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(&server.head("POST", "/v1/completions", &[], 1 << 20)).unwrap();
            stream.write_all(&part).unwrap();
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_millis(500));
    let small = json!({"prompt": "Once", "max_tokens": 1});
    server.post("/v1/completions", &small).ok();
    let large = json!({"prompt": "Once", "max_tokens": 1, "client_metadata": "x".repeat(500_000)});
    let refused = server.post("/v1/completions", &large);
    assert_eq!(refused.status, 503, "{}", refused.body);
    assert!(refused.headers.contains_key("retry-after"));
    drop(slow);
    wait("the memory is not given back", || server.post("/v1/completions", &large).status == 200);
}

/// A text that can never fit is refused before it is rendered or encoded.
#[test]
fn texts_that_are_far_too_long() {
    let server = crate::harness::shared();
    let text = "ab".repeat(10 << 20);
    let tools = json!([{"type": "function", "function": {"name": "f", "description": text}}]);
    let short = json!([{"role": "user", "content": "Hi"}]);
    for (path, body) in [
        ("/v1/completions", json!({"prompt": text})),
        ("/completion", json!({"prompt": text})),
        ("/v1/chat/completions", json!({"messages": short, "tools": tools})),
        ("/v1/chat/completions", json!({"messages": [{"role": "user", "content": text}]})),
        ("/v1/messages", json!({"max_tokens": 1, "messages": [{"role": "user", "content": text}]})),
    ] {
        let answer = server.post(path, &body);
        assert_eq!(answer.status, 400);
        let error = answer.json()["error"].clone();
        assert!(error["message"].as_str().unwrap().contains("--context") || path == "/v1/messages");
        if path != "/v1/messages" {
            assert_eq!(error["code"], "context_length_exceeded", "{error}");
            // the bound by bytes: the text was not encoded
            assert_eq!(error["n_prompt_tokens"], text.len() / 64, "{path}: {error}");
        }
    }
}

/// While running requests end, the port answers 503.
#[test]
fn the_end_is_seen() {
    let mut server = start(|config| config.load = config.load.clone().context(1024));
    let body = json!({"prompt": "Once", "max_tokens": 900, "ignore_eos": true, "stream": true})
        .to_string();
    // a request whose body is not complete keeps the server until all is asked
    let held_body = json!({"prompt": "Once", "max_tokens": 1}).to_string();
    let mut held = server.connect();
    held.write_all(&server.head("POST", "/v1/completions", &[], held_body.len())).unwrap();
    held.write_all(&held_body.as_bytes()[..1]).unwrap();
    let mut streams = [(); 4].map(|()| {
        let mut stream = server.connect();
        stream.write_all(&server.head("POST", "/v1/completions", &[], body.len())).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        stream.read_exact(&mut [0; 300]).unwrap();
        stream
    });
    // one that is there, but whose request comes after the stop
    let mut early = server.connect();
    server.stop();
    early.write_all(&server.head("GET", "/live", &[], 0)).unwrap();
    assert_eq!(read(&mut early).status, 200);
    wait("the server does not stop", || server.get("/health").status == 503);
    let health = server.get("/health");
    assert_eq!((health.status, &health.json()["status"]), (503, &json!("shutting down")));
    assert!(health.headers.contains_key("retry-after"));
    let refused = server.post("/v1/completions", &json!({"prompt": "Once"}));
    assert_eq!(refused.status, 503);
    assert!(refused.headers.contains_key("retry-after"));
    assert_eq!(server.get("/live").status, 200);
    for stream in &mut streams {
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        assert!(rest.contains("[DONE]"), "{rest}");
    }
    held.write_all(&held_body.as_bytes()[1..]).unwrap();
    assert!(matches!(read(&mut held).status, 200 | 503));
    server.join();
}

/// A model that is unloaded while it is used: the use ends, and the next request loads it again.
#[test]
fn unloads_wait_for_requests() {
    let server = start(|config| config.load = config.load.clone().context(1024));
    let body = json!({"prompt": "Once", "max_tokens": 400, "ignore_eos": true}).to_string();
    let post = |body: &str| server.send("POST", "/v1/completions", &[], body.as_bytes()).ok();
    std::thread::scope(|scope| {
        let user = scope.spawn(|| post(&body));
        wait("the request does not run", || runs(&server));
        let unload = scope.spawn(|| server.post("/models/unload", &json!({"model": "built-in"})));
        wait("the model is not unloaded", || {
            user.is_finished() || server.get("/v1/models/built-in").ok()["status"] == "unloading"
        });
        let next = scope.spawn(|| post(&json!({"prompt": "Once", "max_tokens": 1}).to_string()));
        assert_eq!(user.join().unwrap()["usage"]["completion_tokens"], 400);
        assert_eq!(unload.join().unwrap().ok()["unloaded"], true);
        next.join().unwrap();
    });
}

#[test]
fn keep_alive() {
    let server = start(|_| {});
    let generate = |keep: serde_json::Value| {
        let body = json!({"model": "built-in", "prompt": "Once", "stream": false,
                          "keep_alive": keep, "options": {"num_predict": 1}});
        server.post("/api/generate", &body)
    };
    for wrong in [json!("bad"), json!("5x"), json!({}), json!([1])] {
        assert_eq!(generate(wrong.clone()).status, 400, "{wrong}");
    }
    let expires = || server.get("/api/ps").ok()["models"][0]["expires_at"].clone();
    generate(json!(-1)).ok();
    assert!(expires().as_str().unwrap().starts_with("2318"));
    generate(json!("1h")).ok();
    let now: String = generate(json!("1h")).ok()["created_at"].as_str().unwrap().to_owned();
    let expires = expires().as_str().unwrap().to_owned();
    // an hour later, in the same year or the next
    assert!(
        expires > now
            && expires[..4].parse::<u32>().unwrap() <= now[..4].parse::<u32>().unwrap() + 1
    );
    generate(json!("300ms")).ok();
    wait("the model stays", || server.get("/api/ps").ok()["models"] == json!([]));
    generate(json!(0)).ok();
    wait("the model stays", || server.get("/api/ps").ok()["models"] == json!([]));
}

/// One model answers any name, and says its own.
#[test]
fn names_of_a_single_model() {
    let server = start(|config| config.strict_models = false);
    let body = json!({"model": "gpt-4o", "max_tokens": 1,
                      "messages": [{"role": "user", "content": "Hi"}]});
    assert_eq!(server.post("/v1/chat/completions", &body).ok()["model"], "built-in");
    assert_eq!(server.post("/v1/messages", &body).ok()["model"], "built-in");
    let ollama = json!({"model": "llama3:8b", "stream": false, "prompt": "Hi",
                        "options": {"num_predict": 1}});
    assert_eq!(server.post("/api/generate", &ollama).ok()["model"], "built-in");
    assert_eq!(server.get("/v1/models/gpt-4o").status, 404);
    let several = start(|config| {
        config.strict_models = false;
        config.lazy = true;
        config.models = vec![ModelConfig::built_in(), ModelConfig::file("/nowhere/b.gguf")];
    });
    assert_eq!(several.post("/v1/chat/completions", &body).status, 404);
    // vLLM's clients name none
    assert_eq!(several.post("/tokenize", &json!({"prompt": "Hi"})).status, 200);
    assert_eq!(several.post("/detokenize", &json!({"tokens": [1]})).status, 200);
}

/// The models are loaded behind a port that answers: the load of one whose template is a pipe waits
/// for the pipe's writer.
#[cfg(unix)]
#[test]
fn the_port_answers_during_loads() {
    let pipe = std::env::temp_dir().join(format!("pelton-{}.jinja", std::process::id()));
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let mut config = crate::harness::config();
    let model = ModelConfig { template: Some(pipe.clone()), ..ModelConfig::built_in() };
    config.models = vec![model];
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(pelton_server::Server::bind(config)).unwrap();
    let (address, ready) = (server.address().socket().unwrap(), server.ready());
    let running = runtime.spawn(server.run(std::future::pending()));
    let send = |method: &str, path: &str| {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
        )
        .unwrap();
        read(&mut stream)
    };
    for (method, path) in
        [("GET", "/health"), ("POST", "/v1/completions"), ("GET", "/props"), ("POST", "/api/chat")]
    {
        let answer = send(method, path);
        assert_eq!(answer.status, 503, "{path}");
        assert!(answer.headers.contains_key("retry-after"), "{path}");
    }
    assert_eq!(send("GET", "/live").status, 200);
    assert_eq!(send("GET", "/v1/models").ok()["data"][0]["status"], "loading");
    std::fs::write(&pipe, "{% no template").unwrap();
    let error = runtime.block_on(running).unwrap().unwrap_err();
    assert!(matches!(&error, pelton_server::Error::Load(_)), "{error}");
    assert!(!runtime.block_on(ready));
    std::fs::remove_file(&pipe).unwrap();
}
