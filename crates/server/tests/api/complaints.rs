//! Complaints of users of other servers about pictures, each as a test.
//!
//! | complaint | test |
//! |---|---|
//! | boxes of Qwen's models are shifted, small pictures are read badly: other limits of sizes | `sizes_are_those_of_transformers` of pelton-image, "Boxes" of docs/vision.md |
//! | photos of phones are read sideways | `photos_are_turned_as_their_exif_says` |
//! | WebP fails, or is dropped in silence | `web_formats_are_read_by_every_api`, `what_cannot_be_decoded_is_refused` |
//! | the server aborts if a picture whose rows see each other is longer than a pass | `a_picture_longer_than_a_pass_is_refused` of pelton |
//! | Gemma 4 E2B and E4B read badly: their rows see each other although the config says no | `pictures_and_texts_are_those_of_the_reference` of pelton (`gemma4`, `gemma4-whole`) |
//! | masks of an earlier pass mix pictures | `chunks_batches_and_cached_prefixes_change_nothing` of pelton |
//! | the cache of another picture is used | `pages_are_shared_by_equal_pictures_alone`, `detail_bounds_the_tokens_of_a_picture` of pelton |
//! | hybrid models find no prefix in chats with pictures | `hybrid_models_find_prefixes_of_chats_with_pictures` of pelton |
//! | features are off as soon as a tower is loaded | `a_tower_turns_no_feature_of_texts_off` |
//! | only one picture of a chat is looked at | `pictures_of_all_turns_are_seen` |
//! | the tower runs on the CPU although the model is on a GPU | `a_gpu_has_the_numbers_of_the_reference` of pelton |
//! | pictures are shrunk until text in them cannot be read | `detail_bounds_the_tokens_of_a_picture` of pelton, `a_picture_counts_as_its_tokens` |
//! | pictures with transparency are a panic, or their background is black | `transparency_is_white` |
//! | a model without its tower answers about a placeholder, or with status 500 | `the_missing_file_is_named` |
//! | base64 is refused for its `data:` prefix, its alphabet or its line breaks | `base64_has_all_its_forms` |
//! | memory runs out for the largest picture that may come | `buffers_have_the_size_of_the_most_tokens` of pelton |
//! | addresses of pictures reach private hosts, files are bombs | `hostile_pictures_are_refused_at_once` of pelton-cli, tests of `media` |

use std::{fs, path::Path, sync::OnceLock};

use base64::{Engine, prelude::BASE64_STANDARD};
use pelton_server::ModelConfig;
use serde_json::{Value, json};

use crate::harness::{Answer, TestServer, start};

const MODEL: &str = "built-in-vision";
const SHAPES: &str = "A green triangle at the top left, a green star at the top right and a red star at \
                      the bottom left.";

fn server() -> &'static TestServer {
    static SERVER: OnceLock<TestServer> = OnceLock::new();
    SERVER.get_or_init(|| start(|config| config.models = vec![ModelConfig::built_in_vision()]))
}

fn seen(file: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/seen").join(file)).unwrap()
}

fn sample(file: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/vision/samples");
    fs::read(folder.join(file)).unwrap()
}

fn chat(content: &Value) -> Answer {
    let messages = json!([{"role": "user", "content": content}]);
    let body = json!({"model": MODEL, "temperature": 0, "max_tokens": 48, "messages": messages});
    server().post("/v1/chat/completions", &body)
}

fn part(source: &str) -> Value {
    json!({"type": "image_url", "image_url": {"url": source}})
}

fn asked(text: &str, source: &str) -> Value {
    json!([part(source), {"type": "text", "text": text}])
}

fn text(answer: &Answer) -> String {
    let whole = answer.ok();
    whole["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
}

/// The response of each API to a question about a picture in base64, and the place of the text.
fn of_every_api(asked: &str, picture: &str) -> Vec<(&'static str, Answer, &'static str)> {
    let url = format!("data:image/png;base64,{picture}");
    let post = |path: &'static str, body: Value, at| (path, server().post(path, &body), at);
    let options = json!({"temperature": 0});
    let openai = json!([part(&url), {"type": "text", "text": asked}]);
    let items = json!([{"type": "input_image", "image_url": url},
                       {"type": "input_text", "text": asked}]);
    let source = json!({"type": "base64", "media_type": "image/png", "data": picture});
    let blocks = json!([{"type": "image", "source": source}, {"type": "text", "text": asked}]);
    let own = json!([{"role": "user", "content": asked, "images": [picture]}]);
    vec![
        post(
            "/v1/chat/completions",
            json!({"model": MODEL, "temperature": 0,
                   "messages": [{"role": "user", "content": openai}]}),
            "/choices/0/message/content",
        ),
        post(
            "/v1/responses",
            json!({"model": MODEL, "temperature": 0,
                   "input": [{"role": "user", "content": items}]}),
            "/output/0/content/0/text",
        ),
        post(
            "/v1/messages",
            json!({"model": MODEL, "temperature": 0, "max_tokens": 48,
                   "messages": [{"role": "user", "content": blocks}]}),
            "/content/0/text",
        ),
        post(
            "/api/chat",
            json!({"model": MODEL, "stream": false, "options": options, "messages": own}),
            "/message/content",
        ),
        post(
            "/api/generate",
            json!({"model": MODEL, "stream": false, "options": options, "prompt": asked,
                   "images": [picture]}),
            "/response",
        ),
    ]
}

fn are_answered(file: &str, asked: &str, expected: &str) {
    for (path, answer, at) in of_every_api(asked, &BASE64_STANDARD.encode(seen(file))) {
        assert_eq!(answer.ok().pointer(at), Some(&json!(expected)), "{file}, {path}");
    }
}

#[test]
fn photos_are_turned_as_their_exif_says() {
    for file in ["turned.jpg", "turned.webp", "turned.png"] {
        are_answered(file, "Tell me what you see.", SHAPES);
    }
}

#[test]
fn web_formats_are_read_by_every_api() {
    for file in ["shapes.webp", "shapes.gif"] {
        are_answered(file, "Tell me what you see.", SHAPES);
    }
}

#[test]
fn transparency_is_white() {
    are_answered("clear.png", "What number is written?", "53.");
    are_answered("clear.png", "The background is what colour?", "White.");
}

/// No API answers about a picture that it cannot read.
#[test]
fn what_cannot_be_decoded_is_refused() {
    let webp = seen("shapes.webp");
    for file in [&webp[..webp.len() / 2], b"RIFF\x10\0\0\0WEBPVP8 "] {
        for (path, answer, _) in of_every_api("What?", &BASE64_STANDARD.encode(file)) {
            assert_eq!(answer.status, 400, "{path}: {}", answer.body);
            assert!(answer.body.contains("picture 1"), "{path}: {}", answer.body);
        }
    }
}

#[test]
fn pictures_of_all_turns_are_seen() {
    let [first, second] = ["12-describe.png", "13-number.png"].map(sample);
    let url = |file: &[u8]| format!("data:image/png;base64,{}", BASE64_STANDARD.encode(file));
    let turns = |first: &[u8]| {
        json!([
            {"role": "user", "content": asked("Tell me what you see.", &url(first))},
            {"role": "assistant", "content": SHAPES},
            {"role": "user", "content": asked("What number is written?", &url(&second))},
        ])
    };
    let ask = |messages: Value| {
        let body = json!({"model": MODEL, "temperature": 0, "max_tokens": 1, "logprobs": true,
                          "messages": messages});
        server().post("/v1/chat/completions", &body).ok()
    };
    let both = ask(turns(&first));
    assert!(both["usage"]["prompt_tokens"].as_u64().unwrap() > 2 * 36, "{both}");
    // another first picture is another prompt
    let other = ask(turns(&sample("02-count-colour.png")));
    assert_eq!(both["usage"]["prompt_tokens"], other["usage"]["prompt_tokens"]);
    let logprob = |whole: &Value| whole["choices"][0]["logprobs"]["content"][0]["logprob"].clone();
    assert_ne!(logprob(&both), logprob(&other));
}

/// Texts for a model that sees have what texts have for others.
#[test]
fn a_tower_turns_no_feature_of_texts_off() {
    let post = |path: &str, body: Value| server().post(path, &body).ok();
    let hello = json!([{"role": "user", "content": "Hello."}]);
    let expected = "Hello! Show me a picture of shapes or of a number.";
    let body = json!({"model": MODEL, "temperature": 0, "n": 2, "logprobs": true,
                      "top_logprobs": 3, "messages": hello});
    for _ in 0..2 {
        let whole = post("/v1/chat/completions", body.clone());
        for choice in whole["choices"].as_array().unwrap() {
            assert_eq!(choice["message"]["content"], expected);
            assert_eq!(
                choice["logprobs"]["content"][0]["top_logprobs"].as_array().unwrap().len(),
                3
            );
        }
    }
    let schema = json!({"type": "json_schema", "json_schema": {"name": "a", "schema":
        {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"],
         "additionalProperties": false}}});
    let body = json!({"model": MODEL, "temperature": 0, "response_format": schema,
                      "messages": hello});
    let whole = post("/v1/chat/completions", body);
    let answer = whole["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(serde_json::from_str::<Value>(answer).unwrap()["n"].is_i64(), "{answer}");
    let long = "one two three ".repeat(30);
    let body = json!({"model": MODEL, "temperature": 0, "max_tokens": 4, "prompt": long,
                      "echo": true, "logprobs": 1});
    let whole = post("/v1/completions", body);
    assert!(whole["choices"][0]["logprobs"]["token_logprobs"].as_array().unwrap().len() > 30);
    let body = json!({"model": MODEL, "temperature": 0, "max_tokens": 4, "prompt": long});
    post("/v1/completions", body.clone());
    let whole = post("/v1/completions", body);
    // the pages of the prompt are found again
    let cached = whole["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
    assert!(cached >= 64, "{whole}");
}

/// A model that reads text only names the file that it lacks, and the folder.
#[test]
fn the_missing_file_is_named() {
    let server = start(|_| {});
    let models = server.get("/v1/models").ok();
    let model = &models["data"][0]["id"];
    let url = format!("data:image/webp;base64,{}", BASE64_STANDARD.encode(seen("shapes.webp")));
    let body = json!({"model": model,
                      "messages": [{"role": "user", "content": asked("What?", &url)}]});
    let answer = server.post("/v1/chat/completions", &body);
    assert_eq!(answer.status, 400);
    let said = answer.json()["error"]["message"].as_str().unwrap().to_owned();
    for word in ["picture", "mmproj", "in the folder of the model file"] {
        assert!(said.contains(word), "{said}");
    }
}

#[test]
fn base64_has_all_its_forms() {
    let file = seen("shapes.webp");
    let plain = BASE64_STANDARD.encode(&file);
    let broken: Vec<&str> =
        plain.as_bytes().chunks(60).map(|line| std::str::from_utf8(line).unwrap()).collect();
    let forms = [
        plain.clone(),
        plain.trim_end_matches('=').to_owned(),
        plain.replace('+', "-").replace('/', "_"),
        broken.join("\r\n"),
        format!("data:image/webp;base64,{plain}"),
        format!("data:;base64,{plain}"),
        format!("data:image/png;base64,{}", broken.join("\n")),
        format!("DATA:image/png;charset=utf-8;BASE64,{plain}"),
    ];
    for form in &forms {
        let expected = json!(SHAPES);
        assert_eq!(text(&chat(&asked("Tell me what you see.", form))), SHAPES, "{form}");
        let messages =
            json!([{"role": "user", "content": "Tell me what you see.", "images": [form]}]);
        let body = json!({"model": MODEL, "stream": false, "options": {"temperature": 0},
                          "messages": messages});
        assert_eq!(
            server().post("/api/chat", &body).ok()["message"]["content"],
            expected,
            "{form}"
        );
    }
}

/// All counts of tokens have those of a picture, as `usage` does.
#[test]
fn a_picture_counts_as_its_tokens() {
    let picture = BASE64_STANDARD.encode(sample("12-describe.png"));
    let url = format!("data:image/png;base64,{picture}");
    let content = asked("Tell me what you see.", &url);
    let messages = json!([{"role": "user", "content": content}]);
    let whole = chat(&content).ok();
    let expected = whole["usage"]["prompt_tokens"].as_u64().unwrap();
    assert!(expected > 36, "{whole}");
    let post = |path: &str, body: Value| server().post(path, &body).ok();
    let body = json!({"model": MODEL, "messages": messages});
    let counted = post("/tokenize", body.clone());
    assert_eq!(counted["tokens"].as_array().unwrap().len() as u64, expected);
    let counted = post("/v1/chat/completions/input_tokens", body.clone());
    assert_eq!(counted["input_tokens"], expected);
    let items = json!([{"role": "user", "content": [
        {"type": "input_image", "image_url": url}, {"type": "input_text", "text": "Tell me what you see."}]}]);
    let counted = post("/v1/responses/input_tokens", json!({"model": MODEL, "input": items}));
    assert_eq!(counted["input_tokens"], expected);
    let source = json!({"type": "base64", "media_type": "image/png", "data": picture});
    let blocks = json!([{"type": "image", "source": source},
                        {"type": "text", "text": "Tell me what you see."}]);
    let body = json!({"model": MODEL, "messages": [{"role": "user", "content": blocks}]});
    assert_eq!(post("/v1/messages/count_tokens", body)["input_tokens"], expected);
}

/// `detail` goes through the APIs that have it.
#[test]
fn detail_is_a_word_of_four() {
    let url = format!("data:image/webp;base64,{}", BASE64_STANDARD.encode(seen("shapes.webp")));
    for detail in ["low", "high", "auto", "original"] {
        let part = json!({"type": "image_url", "image_url": {"url": url, "detail": detail}});
        let content = json!([part, {"type": "text", "text": "Tell me what you see."}]);
        assert_eq!(text(&chat(&content)), SHAPES, "{detail}");
    }
    let part = json!({"type": "image_url", "image_url": {"url": url, "detail": "best"}});
    assert_eq!(chat(&json!([part])).status, 400);
}
