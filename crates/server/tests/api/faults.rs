//! Clients that go away, that do not read, that do not write.

use std::{
    io::{Read, Write},
    time::{Duration, Instant},
};

use serde_json::json;

use crate::harness::{TestServer, start};

/// The value of a metric of the built-in model.
fn metric(server: &TestServer, name: &str) -> f64 {
    let text = server.get("/metrics").body;
    let start = format!("{name}{{model=\"built-in\"");
    let line = text.lines().find(|line| line.starts_with(&start));
    let line = line.unwrap_or_else(|| panic!("no {name} in {text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Waits until no request runs or waits.
fn wait_idle(server: &TestServer) {
    let begun = Instant::now();
    while metric(server, "pelton_requests_running") + metric(server, "pelton_requests_waiting")
        > 0.0
    {
        assert!(begun.elapsed() < Duration::from_secs(10), "requests still run");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn long(stream: bool) -> Vec<u8> {
    json!({"prompt": "Once", "max_tokens": 4000, "ignore_eos": true, "stream": stream})
        .to_string()
        .into_bytes()
}

/// A long context, so that a request lasts.
fn server() -> TestServer {
    start(|config| config.load = config.load.clone().context(1024).max_concurrent(2))
}

#[test]
fn a_client_that_goes_away_frees_its_request() {
    let server = server();
    for streams in [true, false] {
        let body = long(streams);
        let mut stream = server.connect();
        stream.write_all(&server.head("POST", "/v1/completions", &[], body.len())).unwrap();
        stream.write_all(&body).unwrap();
        if streams {
            let mut some = [0; 200];
            stream.read_exact(&mut some).unwrap();
        } else {
            let begun = Instant::now();
            while metric(&server, "pelton_requests_running") == 0.0 {
                assert!(begun.elapsed() < Duration::from_secs(10));
            }
        }
        drop(stream);
        wait_idle(&server);
        let aborted = server.get("/metrics").body;
        assert!(aborted.contains("outcome=\"abort\"} 1") || !streams, "{aborted}");
    }
    let before = metric(&server, "pelton_generation_tokens_total");
    assert!(before < 1900.0, "both texts were generated to their ends: {before}");
}

/// Prompts are scored in passes that they share with texts: others neither wait for them nor they
/// for others, and one whose client goes away is not scored to its end.
#[test]
fn others_run_while_prompts_are_scored() {
    let server = start(|config| config.load = config.load.clone().context(1024).max_concurrent(8));
    let open = |body: &[u8]| {
        let mut stream = server.connect();
        stream.write_all(&server.head("POST", "/v1/completions", &[], body.len())).unwrap();
        stream.write_all(body).unwrap();
        stream
    };
    let mut texts: Vec<_> = (0..3).map(|_| open(&long(true))).collect();
    for text in &mut texts {
        text.read_exact(&mut [0; 300]).unwrap();
    }
    let body = json!({"prompt": "once upon a time ".repeat(150), "max_tokens": 0, "echo": true,
                      "logprobs": 5})
    .to_string();
    drop(open(body.as_bytes()));
    let mut scored = open(body.as_bytes());
    let one = server.post("/v1/completions", &json!({"prompt": "Once", "max_tokens": 1})).ok();
    assert_eq!(one["usage"]["completion_tokens"], 1);
    let scored = crate::harness::read(&mut scored).ok();
    let log_probs = scored["choices"][0]["logprobs"]["token_logprobs"].as_array().unwrap().clone();
    assert!(log_probs.len() > 300 && log_probs[1..].iter().all(|one| one.as_f64().unwrap() <= 0.0));
    let running = metric(&server, "pelton_requests_running");
    assert!(running >= 3.0, "the texts go on: {running}");
    drop(texts);
    wait_idle(&server);
}

/// The comment before a prompt comes at once.
#[test]
fn streams_begin_with_a_comment() {
    let server = server();
    let prompt = "once upon a time ".repeat(150);
    let body = json!({"prompt": prompt, "max_tokens": 1, "stream": true});
    let text = server.post("/v1/completions", &body).body;
    assert!(text.starts_with(":\n\n"), "{text}");
    assert!(!text.contains("id:"));
}

/// A client that does not read is cut off, and others go on meanwhile.
#[test]
fn slow_readers() {
    let server = start(|config| {
        config.load = config.load.clone().context(1024).max_concurrent(2);
        config.limits.write_time = Duration::from_millis(500);
    });
    // log-probabilities of a prompt are much text of few tokens
    let body = json!({"prompt": "once upon a time ".repeat(150), "max_tokens": 0, "echo": true,
                      "logprobs": 20, "n": 64, "stream": true})
    .to_string();
    let mut slow = server.connect();
    slow.write_all(&server.head("POST", "/v1/completions", &[], body.len())).unwrap();
    slow.write_all(body.as_bytes()).unwrap();
    let begun = Instant::now();
    let other = json!({"prompt": "Once", "max_tokens": 8});
    assert_eq!(server.post("/v1/completions", &other).status, 200);
    assert!(begun.elapsed() < Duration::from_secs(20));
    let connections = || {
        let text = server.get("/metrics").body;
        let line = text.lines().find(|line| line.starts_with("pelton_http_connections ")).unwrap();
        line.rsplit(' ').next().unwrap().parse::<i64>().unwrap()
    };
    while connections() > 1 {
        assert!(begun.elapsed() < Duration::from_secs(40), "the slow client is still there");
        std::thread::sleep(Duration::from_millis(100));
    }
    wait_idle(&server);
}

/// Heads and bodies that never end are cut off.
#[test]
fn slow_writers() {
    let server = start(|config| {
        config.limits.header_time = Duration::from_millis(300);
        config.limits.body_time = Duration::from_millis(300);
    });
    let mut head = server.connect();
    head.write_all(b"POST /v1/completions HTTP/1.1\r\nhost: loc").unwrap();
    let mut rest = Vec::new();
    let begun = Instant::now();
    let _ = head.read_to_end(&mut rest);
    assert!(begun.elapsed() < Duration::from_secs(10));
    let mut body = server.connect();
    body.write_all(&server.head("POST", "/v1/completions", &[], 1000)).unwrap();
    body.write_all(b"{\"prompt\": ").unwrap();
    assert_eq!(crate::harness::read(&mut body).status, 408);
    assert_eq!(server.get("/health").status, 200);
}

/// The request that ends with the shutdown is finished; new ones are refused.
#[test]
fn shutdown() {
    let mut server = server();
    let body = json!({"prompt": "Once", "max_tokens": 300, "ignore_eos": true, "stream": true})
        .to_string();
    let mut stream = server.connect();
    stream.write_all(&server.head("POST", "/v1/completions", &[], body.len())).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let mut some = [0; 300];
    stream.read_exact(&mut some).unwrap();
    server.stop();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("[DONE]"), "{rest}");
    server.join();
    assert!(std::net::TcpStream::connect(server.address).is_err());
}
