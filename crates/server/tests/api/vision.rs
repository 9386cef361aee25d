//! Pictures in requests of each API to the built-in model that sees. The answers are those of
//! transformers (`models/vision/verify.py`).

use std::{
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use pelton_server::ModelConfig;
use serde_json::{Value, json};

use crate::harness::{TestServer, start};

const MODEL: &str = "built-in-vision";

fn server() -> &'static TestServer {
    static SERVER: OnceLock<TestServer> = OnceLock::new();
    SERVER.get_or_init(|| start(|config| config.models = vec![ModelConfig::built_in_vision()]))
}

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/vision/samples")
}

fn answers() -> Value {
    serde_json::from_str(&fs::read_to_string(samples().join("answers.json")).unwrap()).unwrap()
}

/// A sample of each task: its file in base64, the question, and the answer.
fn questions() -> Vec<(String, String, String)> {
    let answers = answers();
    let of = |sample: &Value| {
        let text = |key: &str| sample[key].as_str().unwrap().to_owned();
        let bytes = fs::read(samples().join(text("file"))).unwrap();
        (BASE64_STANDARD.encode(bytes), text("asked"), text("answer"))
    };
    answers["pictures"].as_array().unwrap()[..16].iter().map(of).collect()
}

#[test]
fn openai() {
    for (picture, asked, expected) in questions() {
        let url = format!("data:image/png;base64,{picture}");
        let content = json!([{"type": "text", "text": asked},
                             {"type": "image_url", "image_url": {"url": url}}]);
        let mut body = json!({"model": MODEL, "temperature": 0,
                              "messages": [{"role": "user", "content": content}]});
        let whole = server().post("/v1/chat/completions", &body).ok();
        assert_eq!(whole["choices"][0]["message"]["content"], expected, "{asked}");
        // the embeddings of the picture are a part of the prompt
        assert!(whole["usage"]["prompt_tokens"].as_u64().unwrap() > 36, "{whole}");
        body["stream"] = json!(true);
        let stream = server().post("/v1/chat/completions", &body);
        let parts = stream.chunks().into_iter();
        let joined: String = parts
            .filter_map(|part| Some(part["choices"][0]["delta"]["content"].as_str()?.to_owned()))
            .collect();
        assert_eq!(joined, expected, "{asked}");
    }
}

#[test]
fn responses_of_openai() {
    for (picture, asked, expected) in questions() {
        let url = format!("data:image/png;base64,{picture}");
        let content = json!([{"type": "input_image", "image_url": url},
                             {"type": "input_text", "text": asked}]);
        let body = json!({"model": MODEL, "temperature": 0,
                          "input": [{"role": "user", "content": content}]});
        let whole = server().post("/v1/responses", &body).ok();
        let outputs = whole["output"].as_array().unwrap();
        let message = outputs.iter().find(|item| item["type"] == "message").unwrap();
        assert_eq!(message["content"][0]["text"], expected, "{asked}");
    }
}

#[test]
fn anthropic() {
    for (picture, asked, expected) in questions() {
        let source = json!({"type": "base64", "media_type": "image/png", "data": picture});
        let content = json!([{"type": "image", "source": source}, {"type": "text", "text": asked}]);
        let body = json!({"model": MODEL, "temperature": 0, "max_tokens": 48,
                          "messages": [{"role": "user", "content": content}]});
        let whole = server().post("/v1/messages", &body).ok();
        assert_eq!(whole["content"][0]["text"], expected, "{asked}");
    }
}

#[test]
fn ollama() {
    for (picture, asked, expected) in questions() {
        let messages = json!([{"role": "user", "content": asked, "images": [picture]}]);
        let body = json!({"model": MODEL, "stream": false, "options": {"temperature": 0},
                          "messages": messages});
        let whole = server().post("/api/chat", &body).ok();
        assert_eq!(whole["message"]["content"], expected, "{asked}");
        let body = json!({"model": MODEL, "stream": false, "options": {"temperature": 0},
                          "prompt": asked, "images": [picture]});
        assert_eq!(server().post("/api/generate", &body).ok()["response"], expected, "{asked}");
    }
}

/// One question has the answer of each picture, and that of none.
#[test]
fn the_picture_decides() {
    let answers = answers();
    let asked = "Describe the picture.";
    for sample in &answers["pictures"].as_array().unwrap()[..16] {
        let bytes = fs::read(samples().join(sample["file"].as_str().unwrap())).unwrap();
        let messages = json!([{"role": "user", "content": asked,
                               "images": [BASE64_STANDARD.encode(bytes)]}]);
        let body = json!({"model": MODEL, "stream": false, "options": {"temperature": 0},
                          "messages": messages});
        let whole = server().post("/api/chat", &body).ok();
        assert_eq!(whole["message"]["content"], sample["described"]);
    }
    let body = json!({"model": MODEL, "temperature": 0,
                      "messages": [{"role": "user", "content": asked}]});
    let whole = server().post("/v1/chat/completions", &body).ok();
    assert_eq!(whole["choices"][0]["message"]["content"], "I see no picture.");
}

/// Addresses and what is no picture are refused in one sentence, before anything is fetched.
#[test]
fn what_is_not_seen_is_refused() {
    let empty = "data:image/png;base64,AAAA";
    for (url, expected) in [
        ("http://127.0.0.1:1/a.png", "is not fetched"),
        ("https://example.com/a.png", "is not fetched"),
        ("http://169.254.169.254/latest", "is not fetched"),
        ("file:///etc/passwd", "expected its bytes as a data: URL"),
        ("data:image/png;base64,%%", "base64"),
        (empty, "picture 1"),
    ] {
        let part = json!({"type": "image_url", "image_url": {"url": url}});
        let body = json!({"model": MODEL, "messages": [{"role": "user", "content": [part]}]});
        let answer = server().post("/v1/chat/completions", &body);
        assert_eq!(answer.status, 400, "{url}");
        let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(expected), "{url}: {message}");
    }
}
