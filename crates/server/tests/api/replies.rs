//! Replies with tool calls: nothing is sent that the model did not write, and what a client
//! assembles from a stream is what the whole body says.

use serde_json::{Value, json};

use crate::harness::{Answer, TestServer, shared};

/// A reply as a client has it, whatever the API.
#[derive(Debug, PartialEq, Eq)]
struct Reply {
    content: String,
    /// Names and arguments.
    calls: Vec<(String, String)>,
    reason: String,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The fields of a request with a tool in OpenAI's form.
fn question(parameters: Value, more: Value) -> Value {
    let function = json!({"name": "bash", "description": "Run", "parameters": parameters});
    let mut body = json!({
        "model": "built-in", "tools": [{"type": "function", "function": function}],
        "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// The tool of the requests whose call is demanded: its argument is long.
fn command() -> Value {
    json!({"type": "object", "required": ["command"],
           "properties": {"command": {"type": "string", "minLength": 60}}})
}

fn chat(server: &TestServer, mut body: Value) -> Reply {
    let whole = server.post("/v1/chat/completions", &body).ok();
    let choice = &whole["choices"][0];
    assert!(choice.get("delta").is_none() && choice["message"]["tool_calls"][0]["index"].is_null());
    let call =
        |call: &Value| (text(&call["function"]["name"]), text(&call["function"]["arguments"]));
    let calls = choice["message"]["tool_calls"].as_array();
    let reply = Reply {
        content: text(&choice["message"]["content"]),
        calls: calls.into_iter().flatten().map(call).collect(),
        reason: text(&choice["finish_reason"]),
    };
    body["stream"] = true.into();
    let mut streamed = Reply { content: String::new(), calls: Vec::new(), reason: String::new() };
    for chunk in server.post("/v1/chat/completions", &body).chunks() {
        let choice = &chunk["choices"][0];
        streamed.content += &text(&choice["delta"]["content"]);
        streamed.reason += &text(&choice["finish_reason"]);
        for one in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
            let (name, arguments) = call(one);
            let index = usize::try_from(one["index"].as_u64().unwrap()).unwrap();
            if index == streamed.calls.len() {
                streamed.calls.push((name, String::new()));
            }
            streamed.calls[index].1 += &arguments;
        }
    }
    assert_eq!(streamed, reply, "{body}");
    reply
}

fn responses(server: &TestServer, body: &Value) -> Value {
    let function = &body["tools"][0]["function"];
    let mut tool = function.clone();
    tool["type"] = "function".into();
    let mut own = json!({
        "model": "built-in", "input": body["messages"], "tools": [tool], "seed": body["seed"],
        "tool_choice": body["tool_choice"], "max_output_tokens": body["max_tokens"],
    });
    let whole = server.post("/v1/responses", &own).ok();
    own["stream"] = true.into();
    let events = server.post("/v1/responses", &own).events();
    let events: Vec<Value> = events.iter().map(|one| serde_json::from_str(one).unwrap()).collect();
    let last = events.last().unwrap();
    let output = |response: &Value| {
        let mut output = response["output"].clone();
        for item in output.as_array_mut().unwrap() {
            item["id"].take();
            item["call_id"].take();
        }
        (output, response["status"].clone())
    };
    assert_eq!(output(&last["response"]), output(&whole), "{own}");
    let deltas = |kind: &str| {
        let own = events.iter().filter(|event| event["type"] == kind);
        own.map(|event| text(&event["delta"])).collect::<String>()
    };
    let field = |kind: &str, field: &str| {
        let items = whole["output"].as_array().unwrap().iter();
        items.filter(|item| item["type"] == kind).map(|item| text(&item[field])).collect::<String>()
    };
    let arguments = deltas("response.function_call_arguments.delta");
    assert_eq!(arguments, field("function_call", "arguments"));
    whole
}

fn anthropic(server: &TestServer, body: &Value) -> (Value, Value) {
    let function = &body["tools"][0]["function"];
    let choice = match body["tool_choice"].as_str() {
        Some("required") => "any",
        _ => "auto",
    };
    let mut own = json!({
        "model": "built-in", "messages": body["messages"], "max_tokens": body["max_tokens"],
        "tools": [{"name": function["name"], "input_schema": function["parameters"]}],
        "tool_choice": {"type": choice}, "seed": body["seed"],
    });
    let whole = server.post("/v1/messages", &own).ok();
    own["stream"] = true.into();
    let mut blocks: Vec<Value> = Vec::new();
    let mut reason = Value::Null;
    for event in server.post("/v1/messages", &own).events() {
        let event: Value = serde_json::from_str(&event).unwrap();
        let at = event["index"].as_u64().and_then(|at| usize::try_from(at).ok()).unwrap_or(0);
        match event["type"].as_str().unwrap() {
            "content_block_start" => blocks.push(event["content_block"].clone()),
            "content_block_delta" => {
                let delta = &event["delta"];
                for name in ["text", "thinking"] {
                    if let Some(more) = delta[name].as_str() {
                        blocks[at][name] = (text(&blocks[at][name]) + more).into();
                    }
                }
                if let Some(json) = delta["partial_json"].as_str() {
                    blocks[at]["input"] = serde_json::from_str(json).unwrap();
                }
            }
            "message_delta" => reason = event["delta"]["stop_reason"].clone(),
            _ => {}
        }
    }
    let without_ids = |mut blocks: Value| {
        for block in blocks.as_array_mut().unwrap() {
            block["id"].take();
        }
        blocks
    };
    assert_eq!(without_ids(blocks.into()), without_ids(whole["content"].clone()), "{own}");
    assert_eq!(reason, whole["stop_reason"]);
    (whole["content"].clone(), reason)
}

fn ollama(server: &TestServer, body: &Value) -> Value {
    let mut own = json!({
        "model": "built-in", "messages": body["messages"], "tools": body["tools"],
        "tool_choice": body["tool_choice"], "stream": false,
        "options": {"seed": body["seed"], "num_predict": body["max_tokens"]},
    });
    let whole = server.post("/api/chat", &own).ok();
    own["stream"] = true.into();
    let lines = server.post("/api/chat", &own).lines();
    let content = |line: &Value| text(&line["message"]["content"]);
    assert_eq!(lines.iter().map(content).collect::<String>(), content(&whole), "{own}");
    let calls =
        |line: &Value| line["message"]["tool_calls"].as_array().cloned().unwrap_or_default();
    assert_eq!(lines.iter().flat_map(calls).collect::<Vec<_>>(), calls(&whole));
    assert_eq!(lines.last().unwrap()["done_reason"], whole["done_reason"]);
    whole
}

/// A demanded call that `max_tokens` cuts is left open where the API has a form for that, and is
/// text elsewhere.
#[test]
fn cut_calls() {
    let server = shared();
    let mut open = 0;
    for max_tokens in [2, 9, 14, 18, 23, 30, 37] {
        let more = json!({"tool_choice": "required", "seed": 1, "max_tokens": max_tokens});
        let body = question(command(), more);
        let reply = chat(server, body.clone());
        assert_eq!(reply.reason, "length", "{reply:?}");
        for (name, arguments) in &reply.calls {
            open += 1;
            assert_eq!(name, "bash");
            assert!(arguments.starts_with('{'), "{arguments}");
            assert!(serde_json::from_str::<Value>(arguments).is_err(), "{arguments}");
            assert_eq!(reply.content, "", "the call is there twice");
        }
        let whole = responses(server, &body);
        assert_eq!(whole["status"], "incomplete");
        let items = whole["output"].as_array().unwrap();
        assert!(items.last().is_none_or(|item| item["status"] == "incomplete"), "{whole}");
        let count = |kind: &str| items.iter().filter(|item| item["type"] == kind).count();
        assert!(count("message") + count("function_call") <= 1, "{whole}");
        let (content, reason) = anthropic(server, &body);
        assert_eq!(reason, "max_tokens");
        assert!(content.as_array().unwrap().iter().all(|block| block["type"] != "tool_use"));
        let whole = ollama(server, &body);
        assert_eq!(whole["done_reason"], "length");
        assert!(whole["message"].get("tool_calls").is_none(), "{whole}");
    }
    assert!(open >= 3, "only {open} replies end within a call");
}

/// Attempts of a small model with the schema that the AI SDK sends: nothing is made up.
#[test]
fn malformed_calls() {
    let server = shared();
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
        "properties": {"location": {"type": "string"}}, "required": ["location"],
        "additionalProperties": false,
    });
    for seed in 0..40 {
        let more = json!({"tool_choice": "auto", "seed": seed, "max_tokens": 60});
        let body = question(schema.clone(), more);
        let reply = chat(server, body.clone());
        for (_, arguments) in &reply.calls {
            assert_ne!(arguments, "{}", "{seed}: {reply:?}");
        }
        if seed % 8 == 0 {
            responses(server, &body);
            anthropic(server, &body);
            ollama(server, &body);
        }
    }
}

/// Complete calls are calls in every API, streamed and whole.
#[test]
fn complete_calls() {
    let server = shared();
    let schema = json!({"type": "object", "required": ["n"], "additionalProperties": false,
                        "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 9}}});
    let more = json!({"tool_choice": "required", "parallel_tool_calls": false, "seed": 3,
                      "max_tokens": 200});
    let body = question(schema, more);
    let reply = chat(server, body.clone());
    assert_eq!((reply.reason.as_str(), reply.content.as_str()), ("tool_calls", ""));
    let arguments: Value = serde_json::from_str(&reply.calls[0].1).unwrap();
    assert!(arguments["n"].is_u64());
    let whole = responses(server, &body);
    assert_eq!(whole["status"], "completed");
    assert_eq!(whole["output"][0]["status"], "completed");
    let (content, reason) = anthropic(server, &body);
    assert_eq!(reason, "tool_use");
    let input = content.as_array().unwrap().iter().find(|block| block["type"] == "tool_use");
    assert!(input.unwrap()["input"]["n"].is_u64(), "{content}");
    let whole = ollama(server, &body);
    assert!(whole["message"]["tool_calls"][0]["function"]["arguments"]["n"].is_u64(), "{whole}");
}

/// Ollama's `logprobs`, as its documentation shows them.
#[test]
fn log_probabilities_of_ollama() {
    let server = shared();
    for (path, more) in [
        ("/api/chat", json!({"messages": [{"role": "user", "content": "What is 2 plus 3?"}]})),
        ("/api/generate", json!({"prompt": "What is 2 plus 3?"})),
        ("/api/generate", json!({"prompt": "Once upon a time", "raw": true})),
    ] {
        let mut body = json!({"model": "built-in", "stream": false, "logprobs": true,
                              "top_logprobs": 2, "options": {"temperature": 0, "num_predict": 6}});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let whole = server.post(path, &body).ok();
        let tokens = whole["logprobs"].as_array().unwrap();
        assert_eq!(tokens.len() as u64, whole["eval_count"].as_u64().unwrap());
        for token in tokens {
            let top = token["top_logprobs"].as_array().unwrap();
            assert_eq!((top.len(), &top[0]["token"]), (2, &token["token"]));
            assert!(token["logprob"].as_f64().unwrap() <= 0.0 && token["bytes"].is_array());
        }
        body["stream"] = true.into();
        let lines = server.post(path, &body).lines();
        let each = lines.iter().filter_map(|line| line["logprobs"].as_array()).flatten();
        assert_eq!(&each.cloned().collect::<Vec<_>>(), tokens);
        body["logprobs"] = false.into();
        body["stream"] = false.into();
        assert!(server.post(path, &body).ok().get("logprobs").is_none());
    }
}

fn anthropic_get(server: &TestServer, path: &str) -> Answer {
    server.send("GET", path, &[("anthropic-version", "2023-06-01")], b"")
}

/// Further paths that Anthropic's clients expect.
#[test]
fn forms_of_anthropic() {
    let server = shared();
    let unknown = server.post("/v1/messages/batches", &json!({}));
    assert_eq!((unknown.status, &unknown.json()["type"]), (404, &json!("error")));
    assert_eq!(unknown.json()["error"]["type"], "not_found_error");
    let models = anthropic_get(server, "/v1/models").ok();
    let one = &models["data"][0];
    assert_eq!((&one["type"], &one["id"]), (&json!("model"), &json!("built-in")));
    assert_eq!(&anthropic_get(server, "/v1/models/built-in").ok(), one);
    assert!(one["display_name"].is_string() && one["created_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!((&models["has_more"], &models["first_id"]), (&json!(false), &json!("built-in")));
    let none = anthropic_get(server, "/v1/models/none");
    assert_eq!((none.status, &none.json()["type"]), (404, &json!("error")));
    assert_eq!(server.get("/v1/models").ok()["object"], "list");
    let body = json!({"model": "built-in", "max_tokens": 2, "stream": true,
                      "messages": [{"role": "user", "content": "What is 2 plus 3?"}]});
    let stream = server.post("/v1/messages", &body).body;
    // a comment tells at once that the request was taken
    assert!(stream.starts_with(":\n\nevent: message_start\n"), "{stream}");
    assert!(stream.contains("\"cache_creation\""), "{stream}");
}

/// Numbers of a request are repeated as they were given.
#[test]
fn numbers_are_as_given() {
    let body = json!({"model": "built-in", "input": "What is 2 plus 3?", "max_output_tokens": 2,
                      "temperature": 0.7, "top_p": 0.9});
    let answer = shared().post("/v1/responses", &body);
    assert_eq!(answer.ok()["temperature"], json!(0.7));
    assert!(answer.body.contains("\"temperature\":0.7,"), "{}", answer.body);
}
