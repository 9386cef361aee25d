//! The API of Anthropic: shapes and the order of events.

use serde_json::{Value, json};

use crate::harness::shared;

fn body(more: Value) -> Value {
    let mut body = json!({
        "model": "built-in", "max_tokens": 16, "temperature": 0,
        "messages": [{"role": "user", "content": "What is 2 plus 3?"}],
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[test]
fn messages() {
    let server = shared();
    let json = server.post("/v1/messages", &body(json!({}))).ok();
    assert_eq!((&json["type"], &json["role"]), (&json!("message"), &json!("assistant")));
    let text = json["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains('5'), "{json}");
    let stream = server.post("/v1/messages", &body(json!({"stream": true}))).body;
    let mut names = Vec::new();
    let mut joined = String::new();
    let mut name = "";
    for line in stream.lines() {
        if let Some(event) = line.strip_prefix("event: ") {
            name = event;
        } else if let Some(data) = line.strip_prefix("data: ") {
            // every frame has a name
            let data: Value = serde_json::from_str(data).unwrap();
            assert_eq!(data["type"], name);
            if name != "content_block_delta" || names.last() != Some(&name.to_owned()) {
                names.push(name.to_owned());
            }
            joined.push_str(data["delta"]["text"].as_str().unwrap_or_default());
            if name == "message_delta" {
                assert_eq!(data["delta"]["stop_reason"], json["stop_reason"]);
                assert_eq!(data["usage"]["output_tokens"], json["usage"]["output_tokens"]);
            }
            name = "";
        }
    }
    let expected = [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(names, expected);
    assert_eq!(joined, text);
}

#[test]
fn stop_sequences_and_counts() {
    let server = shared();
    let text = server.post("/v1/messages", &body(json!({}))).ok();
    let text = text["content"][0]["text"].as_str().unwrap().to_owned();
    let stop = json!({"stop_sequences": ["never", &text[1..3]]});
    let json = server.post("/v1/messages", &body(stop)).ok();
    assert_eq!(json["stop_reason"], "stop_sequence");
    assert_eq!(json["stop_sequence"], &text[1..3]);
    let count = server.post("/v1/messages/count_tokens", &body(json!({}))).ok();
    let usage = &json["usage"];
    let input = usage["input_tokens"].as_u64().unwrap();
    let cached = usage["cache_read_input_tokens"].as_u64().unwrap();
    assert_eq!(count["input_tokens"].as_u64().unwrap(), input + cached);
    // only the cache is warmed
    let json = server.post("/v1/messages", &body(json!({"max_tokens": 0}))).ok();
    assert_eq!((&json["content"], &json["usage"]["output_tokens"]), (&json!([]), &json!(0)));
}

/// Blocks of tools, of thinking and of the system prompt come into the prompt; a nonce does not.
#[test]
fn blocks() {
    let server = shared();
    let count = |more: Value| {
        server.post("/v1/messages/count_tokens", &body(more)).ok()["input_tokens"].as_u64().unwrap()
    };
    let plain = count(json!({"system": "Be kind."}));
    assert!(plain > count(json!({})));
    let nonce = json!({"system": [
        {"type": "text", "text": "x-anthropic-billing-header: cch=1234;"},
        {"type": "text", "text": "Be kind."},
    ]});
    assert_eq!(count(nonce), plain);
    let conversation = json!({"messages": [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": ""},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Ulm"}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1",
             "content": [{"type": "text", "text": "Sunny"}]}]},
    ], "tools": [{"name": "weather", "description": "", "input_schema": {"type": "object"}},
                 {"type": "web_search_20250305", "name": "web_search"}]});
    assert!(count(conversation) > 5);
    let image = json!({"messages": [{"role": "user", "content": [
        {"type": "image", "source": {}}]}]});
    let answer = server.post("/v1/messages", &body(image));
    assert_eq!(answer.status, 400);
    assert_eq!(answer.json()["error"]["type"], "invalid_request_error");
}
