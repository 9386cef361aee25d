//! Wrong bodies: every field of the OpenAPI document with every wrong type.

use serde_json::{Value, json};

use crate::harness::{shared, start};

/// A value of each type, by the names of JSON Schema.
fn values() -> Vec<(&'static str, Value)> {
    vec![
        ("string", json!("zzz")),
        ("number", json!(1.5)),
        ("boolean", json!(true)),
        ("object", json!({"zzz": 1})),
        ("array", json!([null])),
        ("integer", json!(-9_007_199_254_740_993i64)),
    ]
}

/// Whether a schema allows a value of a type, whatever is inside.
fn allows(schemas: &Value, schema: &Value, kind: &str, value: &Value) -> bool {
    if let Some(path) = schema["$ref"].as_str() {
        let name = path.rsplit('/').next().unwrap();
        return allows(schemas, &schemas[name], kind, value);
    }
    if let Some(any) = schema["anyOf"].as_array() {
        return any.iter().any(|one| allows(schemas, one, kind, value));
    }
    if let Some(words) = schema["enum"].as_array() {
        return words.contains(value);
    }
    let types = match &schema["type"] {
        Value::Array(types) => types.iter().map(|kind| kind.as_str().unwrap()).collect(),
        one => vec![one.as_str().unwrap()],
    };
    let fits = types.contains(&kind) || (kind == "integer" && types.contains(&"number"));
    let number = value.as_f64().unwrap_or(0.0);
    let at_least = schema["minimum"].as_f64().is_none_or(|least| number >= least);
    fits && at_least && schema["maximum"].as_f64().is_none_or(|most| number <= most)
}

#[test]
fn every_field_with_every_wrong_type() {
    let server = shared();
    let document = server.get("/openapi.json").ok();
    let mut tried = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        let Some(content) = methods["post"]["requestBody"]["content"].get("application/json")
        else {
            continue;
        };
        let example = &content["example"];
        for (name, schema) in content["schema"]["properties"].as_object().unwrap() {
            for (kind, value) in values() {
                if allows(&document["components"]["schemas"], schema, kind, &value) {
                    continue;
                }
                let mut body = example.clone();
                body[name] = value.clone();
                let answer = server.post(path, &body);
                let text = &answer.body;
                // a field of another way to ask for the same is not read
                if answer.status == 200 && path == "/tokenize" {
                    continue;
                }
                assert_eq!(answer.status, 400, "{path} {name} = {value}: {text}");
                assert!(text.contains(name.as_str()), "{path} {name} = {value}: {text}");
                if !path.starts_with("/api/") && !path.starts_with("/v1/messages") {
                    let param = answer.json()["error"]["param"].clone();
                    let param = param.as_str().unwrap_or_default();
                    assert!(param.starts_with(name.as_str()), "{path} {name} = {value}: {text}");
                }
                tried += 1;
            }
            // null is as if the field were not there
            if !content["schema"]["required"].as_array().unwrap().contains(&json!(name)) {
                continue;
            }
            let mut body = example.clone();
            body[name] = Value::Null;
            assert_eq!(server.post(path, &body).status, 400, "{path} {name}");
        }
    }
    assert!(tried > 500, "{tried}");
}

#[test]
fn malformed_bodies() {
    let server = shared();
    let deep = format!("{{\"prompt\": {}{}}}", "[".repeat(10_000), "]".repeat(10_000));
    for (body, word) in [
        (&b"{"[..], "JSON"),
        (b"", "JSON"),
        (b"[1]", "object"),
        (b"{\"prompt\": \"\xff\xfe\"}", "UTF-8"),
        (b"{\"prompt\": \"a\", \"prompt\": \"b\"}", "twice"),
        (b"{\"prompt\": \"a\", \"max_tokens\": 1e999}", "number"),
        (b"{\"prompt\": \"a\", \"max_tokens\": -3}", "max_tokens"),
        (b"{\"prompt\": \"a\", \"max_tokens\": 99999999999999999999}", "max_tokens"),
        (b"{\"prompt\": \"a\", \"temperature\": -0.5}", "temperature"),
        (b"{\"prompt\": [999999999]}", "vocabulary"),
        (b"{\"prompt\": [-1]}", "prompt"),
        (b"{\"prompt\": \"\", \"best_of\": 1, \"n\": 2}", "best_of"),
        (b"{\"prompt\": \"a\", \"logit_bias\": {\"x\": 1}}", "logit_bias"),
        (b"{\"prompt\": \"a\", \"logit_bias\": {\"999999999\": 1}}", "vocabulary"),
        (deep.as_bytes(), "nested"),
    ] {
        let answer = server.send("POST", "/v1/completions", &[], body);
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        assert_eq!(answer.status, 400, "{shown}: {}", answer.body);
        let error = answer.json();
        let message = error["error"]["message"].as_str().unwrap();
        assert!(message.contains(word), "{shown}: {message}");
        assert_eq!(error["error"]["type"], "invalid_request_error");
    }
}

#[test]
fn shapes_of_errors() {
    let server = shared();
    let body = json!({"model": "none", "messages": [{"role": "user", "content": "a"}],
                      "max_tokens": 1});
    let openai = server.post("/v1/chat/completions", &body);
    assert_eq!((openai.status, &openai.json()["error"]["param"]), (404, &json!("model")));
    let anthropic = server.post("/v1/messages", &body).json();
    assert_eq!(anthropic["type"], "error");
    assert_eq!(anthropic["error"]["type"], "not_found_error");
    let ollama = server.post("/api/chat", &body);
    assert_eq!(ollama.status, 404);
    assert!(ollama.json()["error"].is_string());
    assert_eq!(server.get("/nothing").status, 404);
    assert_eq!(server.get("/v1/completions").status, 405);
    let pull = server.post("/api/pull", &json!({"model": "x"}));
    assert_eq!(pull.status, 501);
}

/// An overflow has the words by which clients know that they must shorten the conversation.
#[test]
fn context_overflow() {
    let server = shared();
    let long = "word ".repeat(3000);
    let body = json!({"messages": [{"role": "user", "content": long}], "max_tokens": 1});
    let answer = server.post("/v1/chat/completions", &body);
    let error = &answer.json()["error"];
    assert_eq!(answer.status, 400);
    assert_eq!(error["code"], "context_length_exceeded");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("maximum context length is 512 tokens"), "{message}");
    assert!(error["n_prompt_tokens"].as_u64().unwrap() > 3000);
    assert_eq!(server.post("/v1/messages", &body).status, 400);
    let mut ollama = body;
    ollama["model"] = "built-in".into();
    assert_eq!(server.post("/api/chat", &ollama).status, 400);
}

#[test]
fn large_bodies() {
    let server = start(|config| config.limits.body_bytes = 1 << 20);
    let ten = vec![b' '; 10 << 20];
    let answer = server.send("POST", "/v1/completions", &[], &ten);
    assert_eq!(answer.status, 413, "{}", answer.body);
    assert_eq!(server.get("/health").status, 200);
    // without a length, in chunks
    let mut stream = server.connect();
    let head =
        b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                 connection: close\r\ntransfer-encoding: chunked\r\n\r\n";
    std::io::Write::write_all(&mut stream, head).unwrap();
    for _ in 0..40 {
        let mut chunk = format!("{:x}\r\n", 1 << 16).into_bytes();
        chunk.extend(vec![b' '; 1 << 16]);
        chunk.extend(b"\r\n");
        if std::io::Write::write_all(&mut stream, &chunk).is_err() {
            break;
        }
    }
    assert_eq!(crate::harness::read(&mut stream).status, 413);
}
