//! Requests that once stopped, stalled or filled a server, each beside streams.
//!
//! The report has the longest pause of a stream during each of them and just before it, and the
//! memory that the server took for it and kept after it. The memory has a limit. The pauses have
//! one with `PELTON_STORM_IDLE=1`, on a machine of at least four cores that does nothing else: a
//! request may make the streams wait for a pass of its own and for 5 ms.

use std::{
    fmt::Write as _,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{client::Connection, server::Server, streams::Streams};

/// How much the server may grow for one request, in bytes.
const GROWTH: usize = 64 << 20;
/// How long a request may make another wait beyond a pass.
const WAIT: Duration = Duration::from_millis(5);
/// The time in which the pauses before a request are looked at.
const BEFORE: Duration = Duration::from_millis(300);

#[test]
fn reported_requests_beside_streams() {
    let server = Server::start();
    let streams = Streams::alone(&server.address);
    let mut failures = Vec::new();
    let is_idle = std::env::var("PELTON_STORM_IDLE").is_ok_and(|value| value == "1");
    let gaps = thread::scope(|scope| {
        let running = streams.start(scope, &server.address);
        thread::sleep(Duration::from_secs(2));
        running.take_longest();
        thread::sleep(Duration::from_secs(2));
        // between two tokens there is a pass
        let pass = running.take_longest();
        println!("without requests: longest pause {pass:?}");
        for (name, path, body) in requests() {
            running.take_longest();
            thread::sleep(BEFORE);
            let before_it = running.take_longest();
            server.forget_peak();
            let (before, begun) = (server.memory(), Instant::now());
            let outcome = Connection::open(&server.address)
                .and_then(|mut connection| connection.request("POST", path, body.as_bytes()));
            let elapsed = begun.elapsed();
            // the pass that runs at the end of the response too
            thread::sleep(Duration::from_millis(50));
            let (pause, peak) = (running.take_longest(), server.peak().saturating_sub(before));
            let kept = server.memory().saturating_sub(before);
            let status = outcome.map(|(status, _)| status).map_err(|error| error.to_string());
            println!(
                "{name}: {status:?} after {elapsed:?}, longest pause {pause:?} ({before_it:?} before), \
                 peak {} MiB, kept {} MiB",
                peak >> 20,
                kept >> 20
            );
            if !matches!(status, Ok(200 | 400 | 404 | 413)) {
                failures.push(format!("{name}: {status:?}"));
            }
            if is_idle && pause > 2 * pass + WAIT {
                failures.push(format!("{name}: a pause of {pause:?}, one pass is {pass:?}"));
            }
            if peak > GROWTH {
                failures.push(format!("{name}: {peak} bytes at the peak, {kept} kept"));
            }
        }
        running.stop()
    });
    println!("{:#}", gaps.report());
    assert!(failures.is_empty(), "{failures:#?}");
    gaps.check();
}

/// The requests: a name, a path and a body.
fn requests() -> Vec<(&'static str, &'static str, String)> {
    const CHAT: &str = "/v1/chat/completions";
    let chat = |fields: Value| {
        let mut body = json!({"max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]});
        let own = fields.as_object().unwrap().clone();
        body.as_object_mut().unwrap().extend(own);
        body.to_string()
    };
    let grammar = |text: String| chat(json!({"structured_outputs": {"grammar": text}}));
    let regex = |text: String| chat(json!({"structured_outputs": {"regex": text}}));
    let schema = |schema: Value| {
        let schema = json!({"name": "a", "schema": schema});
        chat(json!({"response_format": {"type": "json_schema", "json_schema": schema}}))
    };
    let tool = |parameters: Value| {
        let function = json!({"name": "f", "parameters": parameters});
        let tools = json!([{"type": "function", "function": function}]);
        chat(json!({"tools": tools, "tool_choice": "required"}))
    };
    let completion = |fields: Value| fields.to_string();
    let pieces = |text: String| json!({"prompt": text, "with_pieces": true}).to_string();
    let numbers =
        |name: &str, count: usize| format!("{{\"{name}\": [{}7]}}", "1234,".repeat(count));
    vec![
        ("700 chained rules of Lark", CHAT, grammar(chained_rules(700, "start", ": "))),
        ("950 chained rules of GBNF", CHAT, grammar(chained_rules(950, "root", " ::= "))),
        ("12,000 optional marks", CHAT, grammar(format!("root ::= \"a\"{}", "?".repeat(12_000)))),
        (
            "20,000 optional letters",
            CHAT,
            grammar(format!("root ::= {}", "\"a\"? ".repeat(20_000))),
        ),
        ("300 chained definitions", CHAT, schema(chained_definitions(300, "properties"))),
        ("300 chained definitions of a tool", CHAT, tool(chained_definitions(300, "properties"))),
        ("562 chained references", CHAT, schema(chained_definitions(562, "$ref"))),
        ("281 chained anyOf", CHAT, schema(chained_definitions(281, "anyOf"))),
        ("327 chained allOf", CHAT, schema(chained_definitions(327, "allOf"))),
        (
            "4,375 properties",
            CHAT,
            schema(json!({"type": "object", "properties": properties(4375)})),
        ),
        ("400 patterns of properties", CHAT, schema(patterns(400))),
        ("5,000 patterns of properties", CHAT, schema(patterns(5000))),
        ("20,000 optional letters of a regex", CHAT, regex("a?".repeat(20_000))),
        ("40,000 optional letters of a regex", CHAT, regex("a?".repeat(40_000))),
        (
            "scores of a prompt",
            "/v1/completions",
            completion(
                json!({"prompt": "a b ".repeat(200), "echo": true, "logprobs": 5, "max_tokens": 0}),
            ),
        ),
        (
            "a prompt of a million words",
            "/v1/completions",
            completion(json!({"prompt": "word ".repeat(1_000_000), "max_tokens": 1})),
        ),
        (
            "a prompt of 20 MB without spaces",
            CHAT,
            json!({"messages": [{"role": "user", "content": "a".repeat(20 << 20)}]}).to_string(),
        ),
        ("30 MB of lists", "/v1/completions", format!("[{}[]]", "[],".repeat(10 << 20))),
        (
            "a text of 5 MB",
            "/tokenize",
            json!({"prompt": "a b c ".repeat(5 << 20 >> 3)}).to_string(),
        ),
        (
            "a text of 5 MB without spaces",
            "/tokenize",
            json!({"prompt": "a".repeat(5 << 20)}).to_string(),
        ),
        ("a text of 1 MiB without spaces", "/tokenize", pieces("ab".repeat(1 << 19))),
        ("a text of 1 MiB, with pieces", "/tokenize", pieces("a b ".repeat(1 << 18))),
        ("a million token ids", "/v1/completions", numbers("prompt", 1_000_000)),
        ("700,000 token ids", "/v1/completions", numbers("prompt", 700_000)),
        ("700,000 token ids to a text", "/detokenize", numbers("tokens", 700_000)),
        (
            "many replies",
            "/v1/completions",
            completion(
                json!({"prompt": "a", "n": 1_000_000, "best_of": 1_000_000, "max_tokens": 1}),
            ),
        ),
        (
            "many log-probabilities",
            "/v1/completions",
            completion(json!({"prompt": "a", "logprobs": 1_000_000_000, "max_tokens": 1})),
        ),
    ]
}

/// Rules that each stand for the next.
fn chained_rules(count: usize, first: &str, is: &str) -> String {
    let mut text = format!("{first}{is}r0\n");
    for i in 0..count {
        let _ = writeln!(text, "r{i}{is}r{}", i + 1);
    }
    let _ = writeln!(text, "r{count}{is}\"a\"");
    text
}

/// Definitions that each refer to the next, in a property, a list of choices, or by themselves.
fn chained_definitions(count: usize, by: &str) -> Value {
    let reference = |i: usize| json!({"$ref": format!("#/$defs/d{i}")});
    let definition = |i: usize| match by {
        "properties" => {
            json!({"type": "object", "properties": {"a": reference(i)}, "required": ["a"]})
        }
        "$ref" => reference(i),
        by => json!({by: [reference(i)]}),
    };
    let mut all = serde_json::Map::new();
    for i in 0..count {
        all.insert(format!("d{i}"), definition(i + 1));
    }
    all.insert(format!("d{count}"), json!({"type": "integer"}));
    json!({"$defs": all, "type": "object", "properties": {"a": reference(0)}, "required": ["a"]})
}

fn properties(count: usize) -> Value {
    (0..count).map(|i| (format!("p{i}"), json!({"type": "integer"}))).collect()
}

fn patterns(count: usize) -> Value {
    let all: Value = (0..count).map(|i| (format!("^p{i}$"), json!({"type": "integer"}))).collect();
    json!({"type": "object", "patternProperties": all})
}
