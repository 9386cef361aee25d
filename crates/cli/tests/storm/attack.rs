//! Clients that send what no client should, or that read and leave as none should.

use std::{
    io::{self, Read, Write},
    net::Shutdown,
    thread,
    time::{Duration, Instant},
};

use fastrand::Rng;
use serde_json::{Map, Value, json};

use crate::{
    absurd::{self, Choices},
    bodies::Bodies,
    client::Connection,
    honest::{FORM, SAMPLES, TRANSCRIPTIONS, form},
    hostile,
    hub::LIES,
    many,
};

/// How long a client that delays keeps its connection.
const DELAY: Duration = Duration::from_secs(3);
const CHAT: &str = "/v1/chat/completions";
/// Paths of texts in streams.
const STREAMS: [&str; 5] =
    ["/v1/completions", CHAT, "/v1/messages", "/v1/responses", "/api/generate"];

/// The server as hostile clients see it.
pub(crate) struct Target {
    pub(crate) address: String,
    pub(crate) bodies: Bodies,
}

/// One action of a client. An error ends the test.
pub(crate) type Attack = fn(&Target, &mut Rng) -> Result<(), String>;

/// The kinds of attacks, and how many clients of each there are.
pub(crate) const ATTACKS: [(&str, usize, Attack); 8] = [
    ("audio", 1, audio),
    ("constraints", 1, constraints),
    ("many", 1, small_values),
    ("requests", 1, requests),
    ("slow", 4, slow),
    ("leavers", 2, leave),
    ("connections", 1, connections),
    ("pulls", 1, pull),
];

/// Sends a request and looks at its response.
fn send(target: &Target, path: &str, kind: &str, body: &[u8]) -> Result<u16, String> {
    let begun = Instant::now();
    let answer = Connection::open(&target.address).and_then(|mut connection| {
        connection.send_as("POST", path, kind, body)?;
        connection.response()
    });
    let what = || {
        let start: String = String::from_utf8_lossy(body).chars().take(1000).collect();
        format!("{path} after {:?}, {} bytes: {start}", begun.elapsed(), body.len())
    };
    let (status, answer) = answer.map_err(|error| format!("{error}: {}", what()))?;
    check(status, &answer).map_err(|error| format!("{error}: {}", what()))?;
    Ok(status)
}

/// Whether a response is one that a request may get. Errors name what is wrong, as JSON.
pub(crate) fn check(status: u16, answer: &[u8]) -> Result<(), String> {
    let is_expected = matches!(status, 200 | 400..=499 | 501..=504 | 507);
    if !is_expected || (status >= 400 && serde_json::from_slice::<Value>(answer).is_err()) {
        return Err(format!("{status} {}", String::from_utf8_lossy(answer)));
    }
    Ok(())
}

/// Files with legal and absurd headers, and recordings whose bytes are others.
fn audio(target: &Target, rng: &mut Rng) -> Result<(), String> {
    let file = if rng.bool() {
        let choices: Vec<u8> = (0..rng.usize(..4_000)).map(|_| rng.u8(..)).collect();
        absurd::file(&mut Choices(&choices))
    } else {
        let mut file = SAMPLES[rng.usize(..SAMPLES.len())].to_vec();
        for _ in 0..rng.usize(..8) {
            let end = if rng.bool() { 44 } else { file.len() };
            let at = rng.usize(..end);
            file[at] = rng.u8(..);
        }
        file.truncate(rng.usize(..2 * file.len()));
        file
    };
    let grammar = hostile::grammar(rng);
    let texts = [
        ("grammar", grammar.as_str()),
        ("language", "xx"),
        ("temperature", "1e9"),
        ("beam_size", "4000000000"),
        ("beam_size", "5"),
        ("chunking_strategy", "auto"),
        ("response_format", "verbose_json"),
        ("timestamp_granularities[]", "word"),
        ("prompt", &"a".repeat(rng.usize(..10_000))),
    ];
    let one = texts[rng.usize(..texts.len())];
    let texts = [("model", "built-in-speech"), one];
    let texts = if rng.bool() { &texts[..] } else { &texts[..1] };
    let path = rng.choice([TRANSCRIPTIONS, "/v1/audio/translations", "/inference"]).unwrap_or("");
    send(target, path, FORM, &form(&file, texts)).map(drop)
}

/// Chats with schemas and grammars that are long, deep or wrong.
fn constraints(target: &Target, rng: &mut Rng) -> Result<(), String> {
    let mut map = Map::new();
    map.insert("messages".into(), json!([{"role": "user", "content": hostile::text(rng)}]));
    map.insert("max_tokens".into(), rng.u32(1..20).into());
    hostile::constrain(&mut map, rng);
    send(target, CHAT, "application/json", Value::Object(map).to_string().as_bytes()).map(drop)
}

fn small_values(target: &Target, rng: &mut Rng) -> Result<(), String> {
    let (path, body) = many::body(&target.bodies, rng);
    send(target, &path, "application/json", &body).map(drop)
}

/// Requests from the schemas of the OpenAPI document, some of them broken.
fn requests(target: &Target, rng: &mut Rng) -> Result<(), String> {
    let request = target.bodies.request(rng.u64(..));
    let answer = Connection::open(&target.address).and_then(|mut connection| {
        connection.request(&request.method, &request.path, &request.body)
    });
    let (status, answer) = answer.map_err(|error| {
        let body = String::from_utf8_lossy(&request.body);
        format!("{} {}: {error}: {body:.1000}", request.method, request.path)
    })?;
    check(status, &answer).map_err(|error| format!("{} {}: {error}", request.method, request.path))
}

/// The body of a stream of a path.
fn stream(path: &str, rng: &mut Rng) -> Vec<u8> {
    let tokens = rng.u32(1..400);
    let mut body = json!({"stream": true, "model": "built-in", "ignore_eos": true});
    match path {
        "/v1/responses" => {
            body = json!({"stream": true, "model": "built-in", "input": "a", "max_output_tokens": tokens});
        }
        "/v1/completions" => body["prompt"] = "Once".into(),
        "/api/generate" => {
            body =
                json!({"model": "built-in", "prompt": "Once", "options": {"num_predict": tokens}});
        }
        _ => body["messages"] = json!([{"role": "user", "content": "a"}]),
    }
    if ["/v1/completions", CHAT].contains(&path) {
        body["max_tokens"] = tokens.into();
    } else if path == "/v1/messages" {
        body = json!({"stream": true, "model": "built-in", "max_tokens": tokens,
                      "messages": body["messages"]});
    }
    body.to_string().into_bytes()
}

/// Reads some lines of a stream, of a text or of a transcript, and leaves.
fn leave(target: &Target, rng: &mut Rng) -> Result<(), String> {
    let lines = rng.usize(..40);
    let outcome = Connection::open(&target.address).and_then(|mut connection| {
        if rng.u32(..5) == 0 {
            let file = SAMPLES[rng.usize(..SAMPLES.len())];
            let texts = [("model", "built-in-speech"), ("stream", "true")];
            connection.send_as("POST", TRANSCRIPTIONS, FORM, &form(file, &texts))?;
        } else {
            let path = STREAMS[rng.usize(..STREAMS.len())];
            connection.send("POST", path, &stream(path, rng))?;
        }
        (0..lines).try_for_each(|_| connection.line().map(drop))
    });
    ended(outcome)
}

/// The end of a connection is no fault of the server here, but silence is.
fn ended(outcome: io::Result<()>) -> Result<(), String> {
    match outcome {
        Err(error)
            if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
        {
            Err(format!("a connection is silent: {error}"))
        }
        _ => Ok(()),
    }
}

/// Writes or reads slowly.
fn slow(target: &Target, rng: &mut Rng) -> Result<(), String> {
    let path = STREAMS[rng.usize(..STREAMS.len())];
    let body = stream(path, rng);
    let Ok(mut connection) = Connection::open(&target.address) else { return Ok(()) };
    let head = connection.head("POST", path, "application/json", body.len()).into_bytes();
    let begun = Instant::now();
    let bytes = match rng.u32(..3) {
        0 => head,
        1 => {
            let _ = connection.tcp().write_all(&head);
            body
        }
        _ => {
            let _ = connection.tcp().write_all(&[head, body].concat());
            let mut few = [0; 64];
            while begun.elapsed() < DELAY && connection.tcp().read(&mut few).is_ok_and(|n| n > 0) {
                thread::sleep(Duration::from_millis(50));
            }
            return Ok(());
        }
    };
    let mut bytes = bytes.iter();
    while begun.elapsed() < DELAY
        && let Some(byte) = bytes.next()
        && connection.tcp().write_all(&[*byte]).is_ok()
    {
        thread::sleep(Duration::from_millis(30));
    }
    Ok(())
}

/// Half-closed connections, heads without end, many requests on one connection, and silent ones.
fn connections(target: &Target, rng: &mut Rng) -> Result<(), String> {
    let Ok(mut connection) = Connection::open(&target.address) else { return Ok(()) };
    let outcome = match rng.u32(..5) {
        0 => {
            let body = stream("/v1/completions", rng);
            connection.send("POST", "/v1/completions", &body).and_then(|()| {
                connection.tcp().shutdown(Shutdown::Write)?;
                connection.tcp().read_to_end(&mut Vec::new()).map(drop)
            })
        }
        1 => {
            let head =
                format!("GET /health HTTP/1.1\r\n{}\r\n", "x-more: more\r\n".repeat(100_000));
            connection
                .tcp()
                .write_all(head.as_bytes())
                .and_then(|()| connection.tcp().read_to_end(&mut Vec::new()).map(drop))
        }
        2 => {
            let one = "GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n";
            connection.tcp().write_all(one.repeat(200).as_bytes())
        }
        3 => {
            let noise: Vec<u8> = (0..rng.usize(..5000)).map(|_| rng.u8(..)).collect();
            connection.tcp().write_all(&noise)
        }
        _ => {
            let more: Vec<_> = (0..20).map(|_| Connection::open(&target.address)).collect();
            thread::sleep(Duration::from_millis(500));
            drop(more);
            Ok(())
        }
    };
    ended(outcome)
}

/// Downloads from repositories that lie. The client leaves when it has waited.
fn pull(target: &Target, rng: &mut Rng) -> Result<(), String> {
    let name = LIES[rng.usize(..LIES.len())];
    let body = json!({"model": format!("o/{name}"), "stream": rng.bool()}).to_string();
    let Ok(mut connection) = Connection::open(&target.address) else { return Ok(()) };
    let _ = connection.wait_for(DELAY);
    let answer = connection.request("POST", "/api/pull", body.as_bytes());
    let Ok((status, answer)) = answer else { return Ok(()) };
    let text = String::from_utf8_lossy(&answer);
    if text.contains("success") {
        return Err(format!("the download from {name} succeeds: {text}"));
    }
    // a stream of lines has its error in the last one
    check(status, text.lines().last().unwrap_or_default().as_bytes())
}
