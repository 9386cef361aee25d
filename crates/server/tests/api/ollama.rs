//! The API of Ollama: lines of JSON.

use serde_json::{Value, json};

use crate::harness::{shared, start};

#[test]
fn chats() {
    let server = shared();
    let body = |stream: Value| {
        json!({"model": "built-in:latest", "stream": stream,
               "messages": [{"role": "user", "content": "What is 2 plus 3?"}],
               "options": {"temperature": 0, "num_predict": 16}})
    };
    let whole = server.post("/api/chat", &body(json!(false))).ok();
    let text = whole["message"]["content"].as_str().unwrap().to_owned();
    assert!(text.contains('5'), "{whole}");
    // a stream is the default
    let answer = server.post("/api/chat", &body(Value::Null));
    assert_eq!(answer.headers["content-type"], "application/x-ndjson");
    let lines = answer.lines();
    let joined: String =
        lines.iter().map(|line| line["message"]["content"].as_str().unwrap()).collect();
    assert_eq!(joined, text);
    let (last, others) = lines.split_last().unwrap();
    assert!(others.iter().all(|line| line["done"] == false));
    for name in ["total_duration", "prompt_eval_count", "eval_count", "eval_duration"] {
        assert!(last[name].is_u64(), "{name}: {last}");
    }
    assert_eq!((&last["done"], &last["done_reason"]), (&json!(true), &whole["done_reason"]));
}

#[test]
fn texts() {
    let server = shared();
    let body = json!({"model": "built-in", "prompt": "Once upon a time", "raw": true,
                      "stream": false, "options": {"temperature": 0, "num_predict": 8}});
    let json = server.post("/api/generate", &body).ok();
    let other = json!({"prompt": "Once upon a time", "temperature": 0, "max_tokens": 8});
    let other = server.post("/v1/completions", &other).ok();
    assert_eq!(json["response"], other["choices"][0]["text"]);
    assert_eq!(json["done_reason"], "length");
}

#[test]
fn models() {
    let server = start(|config| config.lazy = true);
    assert_eq!(server.get("/api/ps").ok()["models"], json!([]));
    let empty = json!({"model": "built-in", "messages": []});
    assert_eq!(server.post("/api/chat", &empty).ok()["done_reason"], "load");
    let ps = server.get("/api/ps").ok();
    assert_eq!(ps["models"][0]["name"], "built-in");
    let tags = server.get("/api/tags").ok();
    assert!(tags["models"][0]["size"].as_u64().unwrap() > 1 << 20);
    assert!(tags["models"][0]["details"]["parameter_size"].is_string());
    let show = server.post("/api/show", &json!({"model": "built-in"})).ok();
    assert_eq!(show["model_info"]["general.architecture"], show["details"]["family"]);
    assert_eq!(show["capabilities"][0], "completion");
    let unload = json!({"model": "built-in", "keep_alive": 0});
    assert_eq!(server.post("/api/generate", &unload).ok()["done_reason"], "unload");
    assert_eq!(server.get("/api/ps").ok()["models"], json!([]));
    assert!(server.get("/api/version").ok()["version"].is_string());
}
