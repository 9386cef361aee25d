//! A storm: random requests to every path of the OpenAPI document, beside streams whose texts must
//! stay as they are alone.
//!
//! Four clients send bodies that are made from the document's schemas, most of them sound, some
//! with hostile grammars, schemas and values, some broken. The server is a process of its own, so a
//! death is seen. `PELTON_STORM` is the number of requests (1,000 otherwise), `PELTON_STORM_SEED`
//! the seed; the report is printed (`--no-capture`).

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

#[path = "../../../audio/tests/common/absurd.rs"]
mod absurd;
#[path = "../../../image/tests/common/absurd.rs"]
#[allow(dead_code, reason = "it makes files of all kinds")]
mod absurd_pictures;
mod attack;
mod bodies;
mod client;
mod held;
mod honest;
mod hostile;
mod hub;
mod many;
mod pictures;
mod reported;
mod server;
mod soak;
mod streams;

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use bodies::Bodies;
use client::Connection;
use serde_json::{Value, json};
use server::Server;
use streams::Streams;

const CLIENTS: usize = 4;
/// The longest time until a response is complete.
const PATIENCE: Duration = Duration::from_secs(60);
/// How much the memory of the server may grow after the third tenth of the requests. Until then its
/// caches fill up, of 64 constraints among others.
const GROWTH: usize = 64 << 20;

/// The responses that the clients saw.
#[derive(Default)]
struct Seen {
    statuses: BTreeMap<u16, usize>,
    abandoned: usize,
    /// The longest time of a response, and its request.
    slowest: (Duration, String),
    /// Requests that were answered as no request should be.
    failures: Vec<String>,
}

fn number(variable: &str, default: usize) -> usize {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn random_requests_beside_streams() {
    let requests = number("PELTON_STORM", 1_000);
    let seed = number("PELTON_STORM_SEED", 1) as u64;
    let server = Server::start();
    let bodies = Bodies::new(&server.get("/openapi.json"));
    let streams = Streams::alone(&server.address);
    let (next, memory) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let seen = Mutex::new(Seen::default());
    let begun = Instant::now();
    let gaps = thread::scope(|scope| {
        let running = streams.start(scope, &server.address);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                scope.spawn(|| {
                    loop {
                        let i = next.fetch_add(1, Ordering::Relaxed);
                        if i >= requests || !seen.lock().unwrap().failures.is_empty() {
                            return;
                        }
                        if i > 0 && i.is_multiple_of(requests.div_ceil(10)) {
                            memory.lock().unwrap().push(server.memory());
                        }
                        send(&server, &bodies, seed.wrapping_add(i as u64), &seen);
                    }
                })
            })
            .collect();
        for client in clients {
            client.join().unwrap();
        }
        running.stop()
    });
    let seconds = begun.elapsed().as_secs_f64();
    let seen = seen.into_inner().unwrap();
    // abandoned requests are freed when the server sees that their clients are gone
    thread::sleep(Duration::from_secs(1));
    let mut memory = memory.into_inner().unwrap();
    memory.push(server.memory());
    let report = json!({
        "requests": requests, "seed": seed, "seconds": seconds.round(),
        "statuses": seen.statuses, "abandoned": seen.abandoned,
        "slowest_ms": seen.slowest.0.as_millis() as u64,
        "slowest": seen.slowest.1.chars().take(300).collect::<String>(),
        "streams": gaps.report(),
        "memory_mib_after_each_tenth": memory.iter().map(|bytes| bytes >> 20).collect::<Vec<_>>(),
    });
    println!("{report:#}");
    assert!(seen.failures.is_empty(), "{:#?}", seen.failures);
    assert!(seen.slowest.0 < PATIENCE, "{:?}", seen.slowest);
    gaps.check();
    let (settled, end) = (memory[2], memory[memory.len() - 1]);
    assert!(end < settled + GROWTH, "{settled} bytes, then {end}");
    let health = server.get("/health");
    assert_eq!(health["status"], "ok", "{health}");
}

/// Sends the request of a seed, and notes its response.
fn send(server: &Server, bodies: &Bodies, seed: u64, seen: &Mutex<Seen>) {
    let request = bodies.request(seed);
    let begun = Instant::now();
    let failed = |what: String| {
        let body: String = String::from_utf8_lossy(&request.body).chars().take(2000).collect();
        format!("seed {seed}: {} {}: {what}: {body}", request.method, request.path)
    };
    let outcome = Connection::open(&server.address).and_then(|mut connection| {
        if request.is_abandoned {
            connection.send(&request.method, &request.path, &request.body)?;
            return Ok(None);
        }
        connection.request(&request.method, &request.path, &request.body).map(Some)
    });
    let elapsed = begun.elapsed();
    let mut seen = seen.lock().unwrap();
    match outcome {
        Ok(None) => seen.abandoned += 1,
        Ok(Some((status, body))) => {
            *seen.statuses.entry(status).or_default() += 1;
            if elapsed > seen.slowest.0 {
                seen.slowest = (elapsed, failed(format!("{status} after {elapsed:?}")));
            }
            let is_expected = matches!(status, 200 | 400..=499 | 501 | 503);
            if !is_expected {
                seen.failures.push(failed(format!("{status} {}", String::from_utf8_lossy(&body))));
            }
            // errors name what is wrong, as JSON
            if status >= 400 && serde_json::from_slice::<Value>(&body).is_err() {
                seen.failures.push(failed(format!("an error without JSON, {status}")));
            }
        }
        Err(error) => seen.failures.push(failed(error.to_string())),
    }
}
