//! Many streams at the same time.

use std::{
    io::{BufRead, BufReader, Write},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::harness::{TestServer, start};

/// The longest pause between two frames of a stream.
const STALL: Duration = Duration::from_secs(5);

/// The text of a stream, read frame by frame.
fn text(server: &TestServer, body: &Value) -> String {
    let body = body.to_string();
    let mut stream = server.connect();
    stream.write_all(&server.head("POST", "/v1/completions", &[], body.len())).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let (mut text, mut lines, mut last) = (String::new(), BufReader::new(stream), Instant::now());
    let mut line = String::new();
    loop {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "a stream has no end");
        assert!(last.elapsed() < STALL, "a stream has paused for {:?}", last.elapsed());
        last = Instant::now();
        let Some(data) = line.trim().strip_prefix("data: ") else { continue };
        if data == "[DONE]" {
            return text;
        }
        let chunk: Value = serde_json::from_str(data).unwrap();
        text.push_str(chunk["choices"][0]["text"].as_str().unwrap_or_else(|| panic!("{data}")));
    }
}

/// Bytes of memory that this process has, on Linux.
fn memory() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    text.split_whitespace().nth(1)?.parse::<usize>().ok().map(|pages| pages * 4096)
}

/// 64 streams for a time: no error, no long pause, each text as it is alone, and the memory as
/// before. The time is `PELTON_SOAK` in seconds, or one round.
#[test]
fn many_streams() {
    let server = start(|config| {
        // every stream has a slot, so that none waits for others to end
        config.load = config.load.clone().context(256).max_concurrent(64).queue_requests(128);
    });
    let body = |i: usize| {
        json!({"prompt": format!("Once upon a time number {}", i % 8), "max_tokens": 24,
               "seed": i % 8, "stream": true})
    };
    let alone: Vec<String> = (0..8).map(|i| text(&server, &body(i))).collect();
    let seconds = std::env::var("PELTON_SOAK").ok().and_then(|text| text.parse().ok());
    let round = |end: Instant| {
        std::thread::scope(|scope| {
            for i in 0..64 {
                let (alone, server) = (&alone, &server);
                scope.spawn(move || {
                    loop {
                        assert_eq!(text(server, &body(i)), alone[i % 8]);
                        if Instant::now() >= end {
                            break;
                        }
                    }
                });
            }
        });
    };
    round(Instant::now());
    let before = memory();
    if let Some(seconds) = seconds {
        round(Instant::now() + Duration::from_secs(seconds));
        // other tests of this process take memory meanwhile: this bound is for leaks of a long run
        if let (Some(before), Some(after)) = (before, memory()) {
            assert!(after < before + (256 << 20), "{before} and {after} bytes");
        }
    }
    let metrics = server.get("/metrics").body;
    assert!(metrics.contains("pelton_requests_running{model=\"built-in\"} 0\n"), "{metrics}");
}
