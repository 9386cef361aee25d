//! Grammars and schemas of clients: none stops or stalls the server, and errors speak of what was
//! sent.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::harness::{Answer, shared};

fn chat(extra: Value) -> Value {
    let mut body = json!({"model": "built-in", "max_tokens": 8, "seed": 1,
        "messages": [{"role": "user", "content": "What is 7 plus 5?"}]});
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    body
}

fn post(extra: Value) -> Answer {
    shared().post("/v1/chat/completions", &chat(extra))
}

fn schema(schema: &Value) -> Value {
    json!({"response_format": {"type": "json_schema",
        "json_schema": {"name": "a", "schema": schema}}})
}

fn tool(parameters: &Value) -> Value {
    json!({"type": "function", "function": {"name": "f", "parameters": parameters}})
}

fn members(keyword: &str, count: usize, name: &dyn Fn(usize) -> String) -> Value {
    let all: Map<String, Value> = (0..count).map(|i| (name(i), json!({}))).collect();
    json!({ "type": "object", keyword: all })
}

#[test]
fn no_constraint_stops_or_stalls_the_server() {
    let grammar = |text: String| json!({ "structured_outputs": { "grammar": text } });
    let lark: String = (0..40_000).map(|i| format!("r{i}: r{}\n", i + 1)).collect();
    let gbnf: String = (0..40_000).map(|i| format!("r{i} ::= r{}\n", i + 1)).collect();
    let mut chain = Map::new();
    for i in 0..3000 {
        let next = json!({ "$ref": format!("#/$defs/d{}", i + 1) });
        chain.insert(format!("d{i}"), json!({"type": "object", "properties": {"a": next}}));
    }
    chain.insert("d3000".to_owned(), json!({ "type": "null" }));
    let chain = json!({ "$ref": "#/$defs/d0", "$defs": chain });
    let object = members("properties", 4375, &|i| format!("p{i}"));
    let patterns = members("patternProperties", 5000, &|i| format!("^p{i}$"));
    // small enough for the prompt
    let factors: Map<String, Value> = ["a", "b", "c", "d", "e", "f"]
        .map(|name| (name.to_owned(), json!({"type": "integer", "multipleOf": 99_991})))
        .into_iter()
        .collect();
    let factors = json!({ "type": "object", "properties": factors });
    for body in [
        grammar(format!("start: r0\n{lark}r40000: \"a\"")),
        grammar(format!("root ::= r0\n{gbnf}r40000 ::= \"a\"")),
        grammar(format!("root ::= \"a\"{}", "?".repeat(120_000))),
        json!({ "structured_outputs": { "regex": "a?".repeat(40_000) } }),
        schema(&chain),
        schema(&object),
        schema(&patterns),
        json!({ "tools": [tool(&factors)], "tool_choice": "required" }),
    ] {
        let begun = Instant::now();
        let answer = post(body.clone());
        let text = body.to_string();
        assert_eq!(answer.status, 400, "{}: {}", &text[..200], answer.body);
        assert!(begun.elapsed() < Duration::from_secs(10), "{}", &text[..200]);
        let said = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(said.contains("expected at most") || said.contains("more than"), "{said}");
    }
    shared().get("/health").ok();
}

#[test]
fn errors_about_schemas_name_what_the_client_sent() {
    let unsound = json!({"type": "object", "properties": {"a": {"not": {}}}});
    let cases = [
        (schema(&unsound), "response_format", "'not' at #/properties/a"),
        (
            json!({"tools": [tool(&json!({"type": "object"})), tool(&unsound)],
                "tool_choice": "required"}),
            "tools[1].function.parameters",
            "'not' at #/properties/a",
        ),
        (
            json!({"tools": [tool(&json!({"type": "object", "properties": {"a": {"type": "zzz"}}}))],
                "tool_choice": {"type": "function", "function": {"name": "f"}}}),
            "tools[0].function.parameters",
            "zzz",
        ),
    ];
    for (body, param, part) in cases {
        let answer = post(body);
        assert_eq!(answer.status, 400, "{}", answer.body);
        let error = &answer.json()["error"];
        assert_eq!(error["param"], param, "{error}");
        let said = error["message"].as_str().unwrap();
        assert!(said.contains(part) && !said.contains("Lark"), "{said}");
    }
}

/// Habits of clients, in a schema of the answer and of a demanded call.
#[test]
fn schemas_of_clients_are_accepted() {
    let used = json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
        "properties": {"path": {"type": "string", "format": "path"},
            "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": true},
            "id": {"type": "string", "format": "uuid4"}},
        "additionalProperties": {"type": "string"}, "propertyNames": {"type": "string"}});
    post(schema(&used)).ok();
    post(json!({"tools": [tool(&used)], "tool_choice": "required"})).ok();
}

/// Where thinking is off, an answer that is constrained begins at its first token.
#[test]
fn constrained_answers_do_not_think_unless_thinking_is_on() {
    let answer = json!({"type": "object", "properties": {"a": {"type": "integer"}},
        "required": ["a"], "additionalProperties": false});
    let off = json!({ "enable_thinking": false });
    for extra in
        [json!({}), json!({"reasoning_effort": "none"}), json!({"chat_template_kwargs": off})]
    {
        for seed in 0..4 {
            let mut body = chat(schema(&answer));
            body["seed"] = seed.into();
            body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            let reply = shared().post("/v1/chat/completions", &body).ok();
            let message = &reply["choices"][0]["message"];
            let content = message["content"].as_str().unwrap_or_default();
            assert!(content.starts_with('{'), "{extra}: {message}");
            assert!(message.get("reasoning_content").is_none_or(Value::is_null), "{message}");
        }
    }
    let mut body = json!({"model": "built-in", "stream": false, "think": false, "format": answer,
        "options": {"num_predict": 10, "seed": 1}, "messages": [{"role": "user", "content": "Hi"}]});
    let reply = shared().post("/api/chat", &body).ok();
    let content = reply["message"]["content"].as_str().unwrap_or_default();
    assert!(content.starts_with('{'), "{reply}");
    body = chat(schema(&answer));
    body["enable_thinking"] = true.into();
    body["max_tokens"] = 4.into();
    let reply = shared().post("/v1/chat/completions", &body).ok();
    let content = reply["choices"][0]["message"]["content"].as_str().unwrap_or_default();
    assert!(!content.starts_with('{'), "{reply}");
}

/// A call that is demanded is the whole reply, as in OpenAI's API: the form of an answer is not
/// read. Where the model decides, the reply is a call or an answer of that form.
#[test]
fn forms_of_answers_and_tools() {
    let city = json!({"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}},
        "required": ["city"], "additionalProperties": false});
    let number = json!({"type": "object", "properties": {"n": {"type": "integer", "maximum": 99}},
        "required": ["n"], "additionalProperties": false});
    let named = json!({"type": "function", "function": {"name": "f"}});
    let reply = |choice: &Value, seed: usize, temperature: f64| {
        let mut body = chat(schema(&number));
        let own = json!({"tools": [tool(&city)], "tool_choice": choice, "seed": seed,
            "max_tokens": 60, "temperature": temperature});
        body.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        shared().post("/v1/chat/completions", &body).ok()["choices"][0].clone()
    };
    let is_city = |text: &str| {
        matches!(serde_json::from_str::<Value>(text), Ok(value)
        if value == json!({"city": "Oslo"}) || value == json!({"city": "Rome"}))
    };
    for choice in [json!("required"), named] {
        let choice = reply(&choice, 1, 1.0);
        let call = &choice["message"]["tool_calls"][0]["function"];
        assert!(is_city(call["arguments"].as_str().unwrap_or_default()), "{choice}");
        assert_eq!(choice["finish_reason"], "tool_calls");
    }
    let (mut calls, mut answers) = (0, 0);
    for seed in 0..40 {
        // a high temperature, so that both come
        let choice = reply(&json!("auto"), seed, 2.0);
        let message = &choice["message"];
        match message["tool_calls"][0]["function"]["arguments"].as_str() {
            Some(arguments) => {
                assert!(is_city(arguments) || choice["finish_reason"] == "length", "{choice}");
                calls += 1;
            }
            None => {
                let content = message["content"].as_str().unwrap_or_default();
                let value: Result<Value, _> = serde_json::from_str(content);
                let is_number = value.is_ok_and(|value| value["n"].is_i64());
                assert!(is_number || choice["finish_reason"] == "length", "{choice}");
                answers += 1;
            }
        }
    }
    assert!(calls > 0 && answers > 0, "{calls} calls, {answers} answers");
}
