//! Bodies of many small values, in every field that takes a list or an object.
//!
//! `PELTON_FUZZ_RUNS` is the number of bodies, `PELTON_FUZZ_SEED` the seed of the first.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use fastrand::Rng;
use serde_json::Value;

use crate::{PATIENCE, attack::check, bodies::Bodies, client::Connection, number, server::Server};

/// The time of all cores that a body may take.
const WORK: Duration = Duration::from_secs(10);
/// How much the server may grow for one body: 62 MiB of its values, and what is made of them.
const PEAK: usize = 128 << 20;
/// How much it may grow for all of them after the first fifth. The allocator has two arenas, and a
/// body of the first fifth may have used one of them alone: the other may come to keep what a body
/// takes at most. 1,056 bodies end where 132 do, between 150 and 240 MiB.
const GROWTH: usize = PEAK;
/// The place of the many values.
pub(crate) const HOLE: &str = "@many@";

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";
const MESSAGES: &str = "/v1/messages";
const RESPONSES: &str = "/v1/responses";

/// A path, and the body of one token around the many values.
const PLACES: [(&str, &str); 44] = [
    (CHAT, r#"{"max_tokens": 1, "messages": @}"#),
    (CHAT, r#"{"max_tokens": 1, "messages": [{"role": "user", "content": @}]}"#),
    (CHAT, r#"{"max_tokens": 1, "messages": [{"role": "assistant", "tool_calls": @}]}"#),
    (CHAT, r#"{"max_tokens": 1, "messages": [{"role": "user", "content": "a"}], "tools": @}"#),
    (
        CHAT,
        r#"{"max_tokens": 1, "messages": [{"role": "user", "content": "a"}], "tools":
           [{"type": "function", "function": {"name": "f", "parameters": @}}]}"#,
    ),
    (
        CHAT,
        r#"{"max_tokens": 1, "messages": [{"role": "user", "content": "a"}], "tools":
           [{"type": "function", "function": {"name": "f", "parameters": {"properties": @}}}]}"#,
    ),
    (CHAT, r#"{"max_tokens": 1, "messages": [{"role": "user", "content": "a"}], "metadata": @}"#),
    (CHAT, r#"{"max_tokens": 1, "messages": [{"role": "user", "content": "a"}], "logit_bias": @}"#),
    (CHAT, r#"{"max_tokens": 1, "messages": [{"role": "user", "content": "a"}], "stop": @}"#),
    (CHAT, r#"{"max_tokens": 1, "messages": [{"role": "user", "content": "a"}], "functions": @}"#),
    (CHAT, r#"{"max_tokens": 1, "messages": [{"role": "user", "content": "a"}], "lora": @}"#),
    (CHAT, r#"{"max_tokens": 1, "messages": [{"role": "user", "content": "a"}], "unknown": @}"#),
    (
        CHAT,
        r#"{"max_tokens": 1, "messages": [{"role": "user", "content": "a"}],
           "chat_template_kwargs": {"a": @}}"#,
    ),
    (
        CHAT,
        r#"{"max_tokens": 1, "messages": [{"role": "user", "content": "a"}],
           "chat_template_kwargs": @}"#,
    ),
    (
        CHAT,
        r#"{"max_tokens": 1, "messages": [{"role": "user", "content": "a"}],
           "structured_outputs": {"choice": @}}"#,
    ),
    (
        CHAT,
        r#"{"max_tokens": 1, "messages": [{"role": "user", "content": "a"}], "response_format":
           {"type": "json_schema", "json_schema": {"name": "a", "schema": {"enum": @}}}}"#,
    ),
    (
        CHAT,
        r#"{"max_tokens": 1, "messages": [{"role": "user", "content": "a"}], "response_format":
           {"type": "json_schema", "json_schema": {"name": "a", "schema": {"properties": @}}}}"#,
    ),
    (
        CHAT,
        r#"{"max_tokens": 1, "messages": [{"role": "user", "content": "a"}], "response_format":
           {"type": "json_schema", "json_schema": {"name": "a", "schema": {"anyOf": @}}}}"#,
    ),
    (
        CHAT,
        r#"{"max_tokens": 1, "messages": [{"role": "user", "content": "a"}], "response_format":
           {"type": "json_schema", "json_schema": {"name": "a", "schema":
           {"type": "object", "required": @}}}}"#,
    ),
    (
        CHAT,
        r#"{"max_tokens": 1, "messages": [{"role": "user", "content": "a"}], "response_format":
           {"type": "json_schema", "json_schema": {"name": "a", "schema": {"default": @}}}}"#,
    ),
    (TEXT, r#"{"max_tokens": 1, "prompt": @}"#),
    (TEXT, r#"{"max_tokens": 1, "prompt": [@, "a"]}"#),
    (TEXT, r#"{"max_tokens": 1, "prompt": "a", "stop": @}"#),
    (TEXT, r#"{"max_tokens": 1, "prompt": "a", "stop_token_ids": @}"#),
    (TEXT, r#"{"max_tokens": 1, "prompt": "a", "logit_bias": @}"#),
    (MESSAGES, r#"{"max_tokens": 1, "messages": @}"#),
    (MESSAGES, r#"{"max_tokens": 1, "messages": [{"role": "user", "content": @}]}"#),
    (MESSAGES, r#"{"max_tokens": 1, "messages": [{"role": "user", "content": "a"}], "system": @}"#),
    (MESSAGES, r#"{"max_tokens": 1, "messages": [{"role": "user", "content": "a"}], "tools": @}"#),
    (RESPONSES, r#"{"max_output_tokens": 1, "input": @}"#),
    (RESPONSES, r#"{"max_output_tokens": 1, "input": [{"role": "user", "content": @}]}"#),
    (RESPONSES, r#"{"max_output_tokens": 1, "input": "a", "metadata": @}"#),
    (RESPONSES, r#"{"max_output_tokens": 1, "input": "a", "tools": @}"#),
    (RESPONSES, r#"{"max_output_tokens": 1, "input": "a", "include": @}"#),
    ("/v1/embeddings", r#"{"model": "built-in", "input": @}"#),
    ("/v1/rerank", r#"{"model": "built-in", "query": "a", "documents": @}"#),
    ("/api/chat", r#"{"model": "built-in", "options": {"num_predict": 1}, "messages": @}"#),
    ("/api/generate", r#"{"model": "built-in", "prompt": "a", "stream": false, "options": @}"#),
    ("/api/generate", r#"{"model": "built-in", "prompt": "a", "stream": false, "context": @}"#),
    ("/api/generate", r#"{"model": "built-in", "prompt": "a", "stream": false, "format": @}"#),
    ("/completion", r#"{"n_predict": 1, "prompt": "a", "logit_bias": @}"#),
    ("/infill", r#"{"n_predict": 1, "input_prefix": "a", "input_suffix": "b", "input_extra": @}"#),
    ("/detokenize", r#"{"tokens": @}"#),
    ("/apply-template", r#"{"messages": @}"#),
];

/// The values that the last field before the hole takes: of a list, or of an object.
const FITTING: [(&str, bool, &str); 23] = [
    ("messages", false, r#"{"role":"user","content":""}"#),
    ("content", false, r#"{"type":"text","text":"a"}"#),
    (
        "tool_calls",
        false,
        r#"{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}"#,
    ),
    ("tools", false, r#"{"type":"function","function":{"name":"f"}}"#),
    ("parameters", true, "0"),
    ("properties", true, r#"{"type":"null"}"#),
    ("metadata", true, r#""""#),
    ("logit_bias", true, "1"),
    ("stop", false, r#""a""#),
    ("functions", false, r#"{"name":"f"}"#),
    ("lora", false, r#"{"id":0,"scale":0}"#),
    ("a", false, "{}"),
    ("chat_template_kwargs", true, "[]"),
    ("choice", false, r#""a""#),
    ("enum", false, "0"),
    ("anyOf", false, r#"{"type":"integer"}"#),
    ("required", false, r#""a""#),
    ("prompt", false, "7"),
    ("stop_token_ids", false, "7"),
    ("system", false, r#"{"type":"text","text":""}"#),
    ("input", false, r#""a""#),
    ("context", false, "7"),
    ("tokens", false, "7"),
];

/// Values of which there are many.
const VALUES: [&str; 18] = [
    "{}",
    "[]",
    "\"\"",
    "0",
    "7",
    "-1.5",
    "null",
    "true",
    "\"a\"",
    "[[]]",
    "[1,2]",
    "{\"a\":0}",
    "{\"type\":\"text\",\"text\":\"\"}",
    "{\"role\":\"user\",\"content\":\"\"}",
    "{\"role\":\"assistant\",\"tool_calls\":[{}]}",
    "{\"type\":\"function\",\"function\":{\"name\":\"f\"}}",
    "{\"type\":\"integer\"}",
    "{\"id\":1,\"scale\":0}",
];

/// A path and a body of it, with many values in one of the places above or in one of the document.
pub(crate) fn body(bodies: &Bodies, rng: &mut Rng) -> (String, Vec<u8>) {
    if rng.bool() {
        let place = rng.usize(..PLACES.len());
        return if rng.bool() { fitting(place, 30_000) } else { at(place, rng) };
    }
    let (path, body) = bodies.with_hole(rng);
    (path, body.to_string().replace(&format!("\"{HOLE}\""), &values(rng)).into_bytes())
}

/// The body of a place with values that its field takes, as far as there is one.
fn fitting(place: usize, count: usize) -> (String, Vec<u8>) {
    let (path, body) = PLACES[place];
    let before = body.split('@').next().unwrap();
    let known = FITTING.iter().max_by_key(|(field, ..)| before.rfind(&format!("\"{field}\":")));
    let (_, is_object, value) = *known.unwrap();
    let values = repeated(is_object, count, || value);
    (path.to_owned(), body.replace('@', &values).into_bytes())
}

/// The body of a place with any values.
fn at(place: usize, rng: &mut Rng) -> (String, Vec<u8>) {
    let (path, body) = PLACES[place];
    (path.to_owned(), body.replace('@', &values(rng)).into_bytes())
}

/// A list or an object of many values, most of them alike.
fn values(rng: &mut Rng) -> String {
    let count = [1_000, 30_000, 100_000, 300_000][rng.usize(..4)];
    let (is_object, is_mixed) = (rng.u32(..3) == 0, rng.u32(..4) == 0);
    let mut one = VALUES[rng.usize(..VALUES.len())];
    repeated(is_object, count, || {
        if is_mixed {
            one = VALUES[rng.usize(..VALUES.len())];
        }
        one
    })
}

fn repeated(is_object: bool, count: usize, mut next: impl FnMut() -> &'static str) -> String {
    let mut text = String::new();
    for i in 0..count {
        let (comma, one) = (if i == 0 { "" } else { "," }, next());
        let _ = match is_object {
            true => write!(text, "{comma}\"{i}\":{one}"),
            false => write!(text, "{comma}{one}"),
        };
    }
    if is_object { format!("{{{text}}}") } else { format!("[{text}]") }
}

#[test]
fn many_small_values() {
    let runs = number("PELTON_FUZZ_RUNS", 3 * PLACES.len());
    let seed = number("PELTON_FUZZ_SEED", 1);
    let server = Server::start();
    let bodies = Bodies::new(&server.get("/openapi.json"));
    let (mut failures, mut settled) = (Vec::new(), 0);
    let (mut longest, mut largest) = ((Duration::ZERO, String::new()), (0, String::new()));
    let mut statuses = std::collections::BTreeMap::<u16, usize>::new();
    for run in 0..runs {
        let mut rng = Rng::with_seed((seed + run) as u64);
        let (path, body) = match run {
            run if run < PLACES.len() => fitting(run, 30_000),
            run if run < 2 * PLACES.len() => at(run - PLACES.len(), &mut rng),
            _ => self::body(&bodies, &mut rng),
        };
        server.forget_peak();
        let (before, worked, begun) = (server.memory(), server.cpu_time(), Instant::now());
        let outcome = Connection::open(&server.address)
            .and_then(|mut connection| connection.request("POST", &path, &body));
        let (work, peak) = (server.cpu_time() - worked, server.peak().saturating_sub(before));
        let start: String = String::from_utf8_lossy(&body).chars().take(300).collect();
        let name = format!("seed {}: {path}, {} bytes: {start}", seed + run, body.len());
        let checked = outcome.map_err(|error| error.to_string()).and_then(|(status, answer)| {
            *statuses.entry(status).or_default() += 1;
            check(status, &answer)
        });
        if let Err(error) = checked {
            failures.push(format!("{error}, {name}"));
        }
        if work > WORK || begun.elapsed() > PATIENCE {
            failures.push(format!("{work:?} of work in {:?}, {name}", begun.elapsed()));
        }
        if peak > PEAK {
            failures.push(format!("{} MiB, {name}", peak >> 20));
        }
        if work > longest.0 {
            longest = (work, name.clone());
        }
        if peak > largest.0 {
            largest = (peak, name);
        }
        if run == runs / 5 {
            settled = server.memory();
        }
    }
    let end = server.memory();
    println!("{runs} bodies, statuses {statuses:?}");
    println!("the longest took {:?}: {}", longest.0, longest.1);
    println!("the largest took {} MiB: {}", largest.0 >> 20, largest.1);
    println!("memory {} MiB after a fifth, {} MiB at the end", settled >> 20, end >> 20);
    assert!(failures.is_empty(), "{failures:#?}");
    assert!(end < settled + GROWTH, "{settled} bytes, then {end}");
    let health: Value = server.get("/health");
    assert_eq!(health["status"], "ok", "{health}");
}
