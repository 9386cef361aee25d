//! Connections that take all places: real sockets of clients that send nothing, little, or a whole
//! request.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::harness::{TestServer, read, start};

const MOST: usize = 48;
/// The longest time for an answer of a server that is full.
const PATIENCE: Duration = Duration::from_secs(5);

fn full() -> TestServer {
    start(|config| {
        config.limits.connections = MOST;
        config.load = config.load.clone().max_concurrent(2);
    })
}

/// More connections than there are places, each of which sends some bytes.
fn hold(server: &TestServer, bytes: &[u8]) -> Vec<TcpStream> {
    let open = |_| {
        let mut stream = server.connect();
        stream.write_all(bytes).unwrap();
        stream
    };
    (0..2 * MOST + 80).map(open).collect()
}

/// The status at a path, which comes soon.
fn status(server: &TestServer, path: &str) -> u16 {
    let begun = Instant::now();
    let status = server.get(path).status;
    assert!(begun.elapsed() < PATIENCE, "{path}: {:?}", begun.elapsed());
    status
}

#[test]
fn idle_connections_keep_nobody_out() {
    let server = full();
    let post = server.head("POST", "/v1/completions", &[], 100);
    for (name, bytes) in [
        ("nothing", &b""[..]),
        ("a part of a head", b"GET /health HTTP/1.1\r\nhost: local"),
        ("a head without its body", &post),
        ("a part of a body", &[&post[..], b"{\"prompt\": "].concat()),
    ] {
        let held = hold(&server, bytes);
        // those that wait for more of a body are left alone for two seconds
        std::thread::sleep(Duration::from_millis(2500));
        for _ in 0..5 {
            for path in ["/health", "/live", "/v1/health", "/metrics", "/v1/models"] {
                assert_eq!(status(&server, path), 200, "{name}: {path}");
            }
            let body = json!({"prompt": "Once", "max_tokens": 1});
            server.post("/v1/completions", &body).ok();
        }
        // at once too, also while all of them are fresh
        drop(held);
        let held = hold(&server, bytes);
        assert_eq!(status(&server, "/health"), 200, "{name}");
        assert_eq!(status(&server, "/live"), 200, "{name}");
        drop(held);
    }
}

/// Requests that run are never closed for others, and health checks are answered all the same.
#[test]
fn running_requests_keep_their_places() {
    let server = full();
    let body = json!({"prompt": "Once upon a time", "max_tokens": 400, "ignore_eos": true,
                      "stream": true, "seed": 1});
    let text = body.to_string();
    let alone = server.post("/v1/completions", &body).events();
    let begin = |_| {
        let mut stream = server.connect();
        stream.write_all(&server.head("POST", "/v1/completions", &[], text.len())).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        // it has begun
        let mut first = [0];
        stream.read_exact(&mut first).unwrap();
        stream
    };
    let running: Vec<TcpStream> = (0..MOST).map(begin).collect();
    for _ in 0..3 {
        assert_eq!(status(&server, "/health"), 200);
        assert_eq!(status(&server, "/live"), 200);
        let other = server.get("/v1/models");
        // unless one has ended meanwhile
        if other.status != 200 {
            assert_eq!(other.status, 503, "{}", other.body);
            assert!(other.body.contains("all 48 connections"), "{}", other.body);
            assert!(other.headers.contains_key("retry-after"));
        }
    }
    let text_of = |events: &mut dyn Iterator<Item = &str>| -> String {
        let chunks = events.filter_map(|event| serde_json::from_str::<Value>(event).ok());
        chunks.filter_map(|one| one["choices"][0]["text"].as_str().map(str::to_owned)).collect()
    };
    let expected = text_of(&mut alone.iter().map(String::as_str));
    // two of them to their end: the others would only take time
    for mut stream in running.into_iter().take(2) {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let whole = String::from_utf8_lossy(&bytes);
        assert!(whole.contains("data: [DONE]"), "{whole}");
        let mut events = whole.lines().filter_map(|line| line.strip_prefix("data: "));
        assert_eq!(text_of(&mut events), expected);
    }
}

/// A connection that is kept alive serves one request after the other, and is closed only when the
/// server is full.
#[test]
fn kept_connections_stay_while_there_is_room() {
    let server = full();
    let mut kept = server.connect();
    let request = format!("GET /live HTTP/1.1\r\nhost: {}\r\n\r\n", server.address);
    for _ in 0..3 {
        kept.write_all(request.as_bytes()).unwrap();
        let mut bytes = [0; 4096];
        let count = kept.read(&mut bytes).unwrap();
        assert!(bytes[..count].starts_with(b"HTTP/1.1 200"));
        std::thread::sleep(Duration::from_millis(150));
    }
    let last = request.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n");
    kept.write_all(last.as_bytes()).unwrap();
    assert_eq!(read(&mut kept).status, 200);
}
