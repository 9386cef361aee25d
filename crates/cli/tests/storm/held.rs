//! The memory that requests hold which wait, and that the store of responses holds.

use std::{
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    PATIENCE, absurd,
    client::Connection,
    honest::{FORM, TRANSCRIPTIONS, form},
    server::Server,
};

/// The store of responses, as docs/serve.md states it.
const STORE: usize = 32 << 20;
/// The memory of all bodies at a time: `Limits::body_memory` of the server.
const BODIES: usize = 512 << 20;
/// Freed memory that an allocator keeps, and caches.
const SPARE: usize = 32 << 20;

/// A form of speech on a connection that waits for its answer.
fn speech(server: &Server, file: &[u8]) -> Connection {
    let mut connection = Connection::open(&server.address).unwrap();
    let body = form(file, &[("model", "built-in-speech"), ("temperature", "0")]);
    connection.send_as("POST", TRANSCRIPTIONS, FORM, &body).unwrap();
    connection
}

/// The value of a metric of the model of speech.
fn metric(server: &Server, name: &str) -> f64 {
    let mut connection = Connection::open(&server.address).unwrap();
    let (_, text) = connection.request("GET", "/metrics", b"").unwrap();
    let text = String::from_utf8(text).unwrap();
    let start = format!("pelton_{name}{{model=\"built-in-speech\"}} ");
    let value = text.lines().find_map(|line| line.strip_prefix(&start));
    value.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

fn wait(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Silence of 8 bits, 16,000 samples a second.
fn silence(seconds: u32) -> Vec<u8> {
    let len = 16_000 * seconds;
    let mut file =
        [&b"RIFF"[..], &(36 + len).to_le_bytes(), b"WAVEfmt \x10\0\0\0\x01\0\x01\0"].concat();
    file.extend([16_000_u32.to_le_bytes(), 16_000_u32.to_le_bytes()].concat());
    file.extend([&b"\x01\0\x08\0data"[..], &len.to_le_bytes()].concat());
    file.resize(file.len() + len as usize, 128);
    file
}

/// Decoders are built within the turn: those of six requests that wait take no memory.
#[test]
fn speech_that_waits_has_no_decoder() {
    // seven large books; a decoder may have 16 MiB of them
    let file = absurd::vorbis_with(1, &absurd::setup(7, 15, 14));
    let server = Server::with(&["--offline", "built-in", "built-in-speech"], &[]);
    speech(&server, &silence(1)).response().unwrap();
    server.forget_peak();
    let before = server.memory();
    let (status, answer) = speech(&server, &file).response().unwrap();
    let one = server.peak() - before;
    println!("a decoder takes {} KiB: {status} {}", one >> 10, String::from_utf8_lossy(&answer));
    assert!(one > 6 << 20, "a decoder takes {one} bytes");

    let first = speech(&server, &silence(3600));
    wait("the first runs", || metric(&server, "requests_running") == 1.0);
    thread::sleep(Duration::from_secs(1));
    let before = server.memory();
    server.forget_peak();
    let waiting: Vec<Connection> = (0..6).map(|_| speech(&server, &file)).collect();
    wait("six wait", || metric(&server, "requests_waiting") == 6.0);
    thread::sleep(Duration::from_millis(500));
    let six = server.peak().saturating_sub(before);
    println!("six that wait take {} KiB", six >> 10);
    assert!(six < one / 2, "six that wait take {six} bytes, one that runs {one}");
    // the turn of one whose client goes is that of the next
    drop(first);
    for mut connection in waiting {
        connection.response().unwrap();
    }
}

/// Responses with 480 KB of echoes stay within the budget of the store, one after
/// the other and at once.
#[test]
fn echoes_of_responses_are_bounded() {
    let server = Server::start();
    let tool = json!({"type": "other", "values": vec![json!({"a": 0}); 30_000]});
    let long = "a".repeat(240_000);
    let body = json!({"input": "a", "max_output_tokens": 1, "tools": [tool], "user": long});
    let body = body.to_string();
    assert!(body.len() > 480_000 && body.len() < 500_000, "{} bytes", body.len());
    let send = &|stream: bool| {
        let body = body.replacen('{', &format!("{{\"stream\":{stream},"), 1);
        let mut connection = Connection::open(&server.address).unwrap();
        connection.request("POST", "/v1/responses", body.as_bytes()).unwrap()
    };
    let (status, answer) = send(false);
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&answer));
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer["user"].as_str().map(str::len), Some(long.len()));
    let before = server.memory();
    server.forget_peak();
    for i in 0..80 {
        assert_eq!(send(i % 2 == 0).0, 200);
    }
    let (peak, kept) = (server.peak() - before, server.memory().saturating_sub(before));
    println!("one after the other: peak {} MiB, kept {} MiB", peak >> 20, kept >> 20);
    assert!(kept < STORE + SPARE, "{kept} bytes are kept");
    assert!(peak < STORE + SPARE + (64 << 20), "{peak} bytes at the peak");

    // memory that an allocator keeps of the first round serves the second one
    let mut after = Vec::new();
    for round in 0..2 {
        server.forget_peak();
        let statuses: Vec<u16> = thread::scope(|scope| {
            let clients: Vec<_> =
                (0..80).map(|i| scope.spawn(move || send(i % 2 == 0).0)).collect();
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        assert!(statuses.iter().all(|status| matches!(status, 200 | 503)), "{statuses:?}");
        let peak = server.peak() - before;
        after.push(server.memory());
        println!(
            "80 at once, round {round}: peak {} MiB, kept {} MiB, {} answered 200",
            peak >> 20,
            server.memory().saturating_sub(before) >> 20,
            statuses.iter().filter(|status| **status == 200).count(),
        );
        assert!(peak < STORE + SPARE + BODIES, "{peak} bytes at the peak");
    }
    assert!(after[1] < after[0] + 2 * SPARE, "{after:?}");
}
