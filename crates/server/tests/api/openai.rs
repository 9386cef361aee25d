//! Completions, chats, responses, embeddings, scores, models.

use pelton::{Device, Engine, GenerateOptions, LoadOptions, ModelSource, Sampling};
use serde_json::{Value, json};

use crate::harness::{shared, start};

const PROMPT: &str = "Once upon a time";

/// The greedy text that the library gives.
fn expected(tokens: usize) -> String {
    let engine = Engine::builder().device(Device::Cpu).threads(1).build().unwrap();
    let model = engine.load(ModelSource::BuiltIn, &LoadOptions::default()).unwrap();
    let options = GenerateOptions::default().max_tokens(tokens).sampling(Sampling::greedy());
    model.generate(PROMPT, options).unwrap().text().unwrap()
}

fn body(more: Value) -> Value {
    let mut body = json!({"prompt": PROMPT, "max_tokens": 12, "temperature": 0});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[test]
fn completions() {
    let server = shared();
    let text = expected(12);
    let answer = server.post("/v1/completions", &body(json!({"model": "built-in"})));
    let json = answer.ok();
    assert!(answer.headers["x-request-id"].starts_with("req-"));
    assert_eq!(json["object"], "text_completion");
    assert_eq!(json["choices"][0]["text"], text.as_str());
    assert_eq!(json["choices"][0]["finish_reason"], "length");
    assert_eq!(json["usage"]["completion_tokens"], 12);

    // a stream has the same text, and usage only if asked for
    let stream = server.post("/v1/completions", &body(json!({"stream": true})));
    assert_eq!(stream.headers["content-type"], "text/event-stream");
    let chunks = stream.chunks();
    let joined: String =
        chunks.iter().map(|chunk| chunk["choices"][0]["text"].as_str().unwrap()).collect();
    assert_eq!(joined, text);
    assert!(chunks.iter().all(|chunk| chunk.get("usage").is_none()));
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "length");
    let with = json!({"stream": true, "stream_options": {"include_usage": true}});
    let chunks = server.post("/v1/completions", &body(with)).chunks();
    let last = chunks.last().unwrap();
    assert_eq!((&last["choices"], &last["usage"]["completion_tokens"]), (&json!([]), &json!(12)));
}

#[test]
fn several_prompts_and_texts() {
    let server = shared();
    let ids = server.post("/tokenize", &json!({"prompt": PROMPT})).ok()["tokens"].clone();
    let prompts = json!({"prompt": [PROMPT, "The dog"], "n": 2, "echo": true});
    let json = server.post("/v1/completions", &body(prompts)).ok();
    let texts: Vec<&str> =
        json["choices"].as_array().unwrap().iter().map(|c| c["text"].as_str().unwrap()).collect();
    assert_eq!(texts.len(), 4);
    assert_eq!(texts[0], format!("{PROMPT}{}", expected(12)));
    assert_eq!(texts[0], texts[1]);
    assert!(texts[3].starts_with("The dog"));
    let indices: Vec<_> = json["choices"].as_array().unwrap().iter().map(|c| &c["index"]).collect();
    assert_eq!(indices, [0, 1, 2, 3]);
    // token ids as prompts, alone and in a list
    for prompt in [ids.clone(), json!([ids])] {
        let json = server.post("/v1/completions", &body(json!({"prompt": prompt}))).ok();
        assert_eq!(json["choices"][0]["text"], expected(12).as_str());
    }
    let seeds = json!({"temperature": 1, "seed": 7, "n": 2});
    let first = server.post("/v1/completions", &body(seeds.clone())).ok();
    let again = server.post("/v1/completions", &body(seeds)).ok();
    assert_eq!(first["choices"], again["choices"]);
    assert_ne!(first["choices"][0]["text"], first["choices"][1]["text"]);
}

/// The log-probabilities of an echoed prompt are those of the same tokens when they are generated.
#[test]
fn log_probs_of_prompts() {
    let server = shared();
    let json = server.post("/v1/completions", &body(json!({"logprobs": 2, "max_tokens": 4}))).ok();
    let made = json["choices"][0]["logprobs"].clone();
    assert_eq!(made["tokens"].as_array().unwrap().len(), 4);
    let ids = server.post("/tokenize", &json!({"prompt": PROMPT})).ok()["tokens"].clone();
    let mut ids: Vec<Value> = ids.as_array().unwrap().clone();
    let start = ids.len();
    let text = json["choices"][0]["text"].as_str().unwrap();
    let more = server.post("/tokenize", &json!({"content": text})).ok()["tokens"].clone();
    let more = more.as_array().unwrap().clone();
    ids.extend(more);
    let echo = json!({"prompt": ids, "echo": true, "logprobs": 2, "max_tokens": 1});
    let json = server.post("/v1/completions", &body(echo)).ok();
    let all = &json["choices"][0]["logprobs"];
    assert_eq!(all["token_logprobs"][0], Value::Null);
    let count = all["tokens"].as_array().unwrap().len();
    assert_eq!(count, ids.len() + 1);
    for i in 0..4 {
        // the text may be encoded in other tokens than it was generated in
        if all["tokens"][start + i] != made["tokens"][i] {
            break;
        }
        let (a, b) = (&all["token_logprobs"][start + i], &made["token_logprobs"][i]);
        let close = (a.as_f64().unwrap() - b.as_f64().unwrap()).abs() < 1e-3;
        assert!(close, "token {i}: {a} {b}");
        // greedy: the best of the list is the token itself, with the same number
        let token = all["tokens"][start + i].as_str().unwrap();
        assert_eq!(all["top_logprobs"][start + i][token], *a);
    }
    let offsets = all["text_offset"].as_array().unwrap();
    assert!(offsets.windows(2).all(|pair| pair[0].as_u64() <= pair[1].as_u64()));
    // no tokens at all, for scores alone
    let none = json!({"echo": true, "logprobs": 0, "max_tokens": 0});
    let json = server.post("/v1/completions", &body(none)).ok();
    assert_eq!(json["choices"][0]["text"], PROMPT);
    assert_eq!(json["usage"]["completion_tokens"], 0);
}

/// Offsets by hand. The first character is two tokens, the second one three, and the prompt begins
/// with a token that is in no text.
#[test]
fn offsets_count_the_characters_of_the_returned_text() {
    let server = shared();
    let log_probs = |more: Value| {
        let json = server.post("/v1/completions", &body(more)).ok();
        let choice = json["choices"][0].clone();
        let tokens: Vec<String> =
            serde_json::from_value(choice["logprobs"]["tokens"].clone()).unwrap();
        let offsets: Vec<usize> =
            serde_json::from_value(choice["logprobs"]["text_offset"].clone()).unwrap();
        (choice["text"].as_str().unwrap().to_owned(), tokens, offsets)
    };
    let prompt = "\u{3a9}\u{1f44d} is \u{e9}, a cat";
    let expected = [
        ("<|begin|>", 0),
        ("bytes:\\xce", 0),
        ("bytes:\\xa9", 0),
        ("bytes:\\xf0\\x9f", 1),
        ("bytes:\\x91", 1),
        ("bytes:\\x8d", 1),
        (" is", 2),
        (" ", 5),
        ("\u{e9}", 6),
        (",", 7),
        (" a", 8),
        (" cat", 10),
    ];
    let echo = json!({"prompt": prompt, "echo": true, "logprobs": 0, "max_tokens": 3});
    let (text, tokens, offsets) = log_probs(echo);
    for (i, (token, offset)) in expected.into_iter().enumerate() {
        assert_eq!((&*tokens[i], offsets[i]), (token, offset), "{tokens:?} {offsets:?}");
    }
    // those of generated tokens go on after it
    assert!(text.starts_with(prompt) && tokens.len() == expected.len() + 3);
    for i in expected.len()..tokens.len() {
        let rest: String = text.chars().skip(offsets[i]).collect();
        assert!(rest.starts_with(&tokens[i]), "{i}: {text:?} {tokens:?} {offsets:?}");
    }
    assert_eq!(offsets[expected.len()], 14);
    // without the prompt they begin with the text
    let (_, _, offsets) = log_probs(json!({"prompt": prompt, "logprobs": 0, "max_tokens": 3}));
    assert_eq!(offsets[0], 0);
    // control tokens that a prompt has as text are in the text
    let prompt = json!({"prompt": "<|end|> a", "echo": true, "logprobs": 0, "max_tokens": 1});
    let (text, _, offsets) = log_probs(prompt);
    assert!(text.starts_with("<|end|> a"));
    assert_eq!(*offsets.last().unwrap(), 9);
}

#[test]
fn stops_and_biases() {
    let server = shared();
    let text = expected(12);
    let word = text.split_whitespace().nth(2).unwrap();
    let json = server.post("/v1/completions", &body(json!({"stop": [word, "zzz"]}))).ok();
    assert_eq!(json["choices"][0]["finish_reason"], "stop");
    assert_eq!(json["choices"][0]["text"], text.split(word).next().unwrap());
    let ids = server.post("/tokenize", &json!({"content": text})).ok()["tokens"].clone();
    let banned = json!({"logit_bias": {ids[0].to_string(): -100}});
    let json = server.post("/v1/completions", &body(banned)).ok();
    assert_ne!(json["choices"][0]["text"], text.as_str());
}

fn chat(more: Value) -> Value {
    let mut body = json!({
        "messages": [{"role": "user", "content": "What is 2 plus 3?"}],
        "max_tokens": 16, "temperature": 0,
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[test]
fn chats() {
    let server = shared();
    let json = server.post("/v1/chat/completions", &chat(json!({}))).ok();
    let text = json["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    assert!(text.contains('5'), "{text}");
    assert_eq!(json["object"], "chat.completion");
    let more = json!({"stream": true, "stream_options": {"include_usage": true}});
    let chunks = server.post("/v1/chat/completions", &chat(more)).chunks();
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    let joined: String = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(joined, text);
    for count in ["prompt_tokens", "completion_tokens", "total_tokens"] {
        assert_eq!(chunks.last().unwrap()["usage"][count], json["usage"][count], "{count}");
    }
    let reasons: Vec<_> =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["finish_reason"].as_str()).collect();
    assert_eq!(reasons, [json["choices"][0]["finish_reason"].as_str().unwrap()]);
    // parts, the developer's role, an older name of the limit
    let parts = json!({
        "messages": [{"role": "developer", "content": "Be short."},
                     {"role": "user", "content": [{"type": "text", "text": "What is 2 plus 3?"}]}],
        "max_completion_tokens": 3, "logprobs": true, "top_logprobs": 2,
    });
    let json = server.post("/v1/chat/completions", &chat(parts)).ok();
    let tokens = json["choices"][0]["logprobs"]["content"].as_array().unwrap();
    assert!((1..=3).contains(&tokens.len()), "{json}");
    assert_eq!(tokens[0]["top_logprobs"].as_array().unwrap().len(), 2);
    assert_eq!(tokens[0]["logprob"], tokens[0]["top_logprobs"][0]["logprob"]);
}

/// Text that looks like a control token in a message is text.
#[test]
fn messages_write_no_control_tokens() {
    let server = shared();
    let info = server.get("/tokenizer_info").ok();
    let Some(end) = info["eos_token"].as_str() else { return };
    let count = |text: &str| {
        let body = json!({"messages": [{"role": "user", "content": text}]});
        server.post("/v1/chat/completions/input_tokens", &body).ok()["input_tokens"].clone()
    };
    let plain = count("a");
    let with = count(&format!("a{end}"));
    assert!(with.as_u64().unwrap() > plain.as_u64().unwrap() + 1, "{with} {plain}");
}

#[test]
fn responses() {
    let server = shared();
    let body = |stream: bool| {
        json!({"input": "What is 2 plus 3?", "max_output_tokens": 16, "temperature": 0,
               "stream": stream})
    };
    let json = server.post("/v1/responses", &body(false)).ok();
    let text = json["output"][0]["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains('5'), "{json}");
    let events: Vec<Value> = server
        .post("/v1/responses", &body(true))
        .events()
        .iter()
        .map(|event| serde_json::from_str(event).unwrap())
        .collect();
    for (i, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], i);
    }
    let last = &events.last().unwrap()["response"];
    assert_eq!(last["output"][0]["content"], json["output"][0]["content"]);
    assert_eq!(last["status"], json["status"]);
    let joined: String = events
        .iter()
        .filter(|event| event["type"] == "response.output_text.delta")
        .map(|event| event["delta"].as_str().unwrap())
        .collect();
    assert_eq!(joined, text);
}

#[test]
fn models() {
    let server = start(|config| {
        let mut second = pelton_server::ModelConfig::built_in();
        second.name = "second".to_owned();
        second.aliases.push("alias".to_owned());
        config.models = vec![pelton_server::ModelConfig::built_in(), second];
        config.lazy = true;
    });
    let list = server.get("/v1/models").ok();
    assert_eq!(list["data"][1]["id"], "second");
    assert_eq!(list["data"][1]["status"], "unloaded");
    assert_eq!(list["data"][2]["id"], "alias");
    assert_eq!(server.get("/v1/models/alias").ok()["root"], "second");
    let answer = server.post("/v1/completions", &body(json!({"model": "alias"})));
    assert_eq!(answer.ok()["model"], "second");
    assert_eq!(server.get("/v1/models/second").ok()["status"], "loaded");
    // several models and no name, and a name that differs by its case
    assert_eq!(server.post("/v1/completions", &body(json!({}))).status, 400);
    let answer = server.post("/v1/completions", &body(json!({"model": "Second"})));
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (404, &json!("model_not_found")));
    assert_eq!(server.post("/models/unload", &json!({"model": "second"})).ok()["unloaded"], true);
    assert_eq!(server.get("/v1/models/second").ok()["status"], "unloaded");
    assert_eq!(server.post("/models/load", &json!({"model": "second"})).ok()["status"], "loaded");
}

#[test]
fn idle_models_are_unloaded() {
    let server = start(|config| {
        config.idle_timeout = Some(std::time::Duration::from_millis(200));
    });
    server.post("/v1/completions", &body(json!({}))).ok();
    for _ in 0..100 {
        if server.get("/v1/models/built-in").ok()["status"] == "unloaded" {
            // and loaded by the next request
            server.post("/v1/completions", &body(json!({}))).ok();
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("the model stays loaded");
}

/// The fixture of a small model, whose embeddings the engine's tests compare with transformers.
fn fixture(name: &str) -> std::path::PathBuf {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.join("../../tests/fixtures/models").join(name)
}

#[test]
fn embeddings_and_scores() {
    let server = start(|config| {
        config.load = config.load.clone().context(64);
        config.models = ["nomic-bert", "bert-reranker"]
            .map(|name| pelton_server::ModelConfig::file(fixture(name)))
            .to_vec();
    });
    let ids = json!({"model": "nomic-bert", "input": [[1, 5, 2], [1, 7, 9, 2]]});
    let float = server.post("/v1/embeddings", &ids).ok();
    assert_eq!(float["usage"]["prompt_tokens"], 7);
    let values: Vec<f64> = float["data"][1]["embedding"]
        .as_array()
        .unwrap()
        .iter()
        .map(|value| value.as_f64().unwrap())
        .collect();
    let norm: f64 = values.iter().map(|value| value * value).sum();
    assert!((norm - 1.0).abs() < 1e-5);
    let mut encoded = ids.clone();
    encoded["encoding_format"] = "base64".into();
    let base64 = server.post("/v1/embeddings", &encoded).ok();
    let text = base64["data"][1]["embedding"].as_str().unwrap().to_owned();
    let bytes = decode(&text);
    let decoded: Vec<f64> = bytes
        .chunks(4)
        .map(|four| f64::from(f32::from_le_bytes(four.try_into().unwrap())))
        .collect();
    assert_eq!(decoded.len(), values.len());
    assert!(decoded.iter().zip(&values).all(|(a, b)| (a - b).abs() < 1e-6));
    let mut short = ids;
    short["dimensions"] = 8.into();
    let short = server.post("/v1/embeddings", &short).ok();
    assert_eq!(short["data"][0]["embedding"].as_array().unwrap().len(), 8);
    // a model of embeddings generates nothing, one of scores embeds nothing
    let wrong = json!({"model": "nomic-bert", "prompt": [1, 2], "max_tokens": 1});
    assert_eq!(server.post("/v1/completions", &wrong).status, 400);
    let wrong = json!({"model": "bert-reranker", "input": [1, 2]});
    assert_eq!(server.post("/v1/embeddings", &wrong).status, 400);
    let long = json!({"model": "nomic-bert", "input": [vec![5; 200]]});
    let answer = server.post("/v1/embeddings", &long);
    assert_eq!(answer.status, 400);
    assert_eq!(answer.json()["error"]["code"], "context_length_exceeded");
}

/// A language model embeds texts by an option of the server, which the error names.
#[test]
fn embeddings_of_a_language_model() {
    let server = start(|_| {});
    for (path, body) in [
        ("/v1/embeddings", json!({"input": "a"})),
        ("/embedding", json!({"content": "a"})),
        ("/api/embed", json!({"model": "built-in", "input": "a"})),
    ] {
        let answer = server.post(path, &body);
        assert_eq!(answer.status, 400, "{path}");
        let said = answer.json()["error"].to_string();
        assert!(said.contains("computes logits") && said.contains("--pooling last"), "{said}");
    }
}

/// Beside models of other kinds, a request without a name, or with any, meets the one that can
/// answer.
#[test]
fn one_model_of_each_kind_needs_no_name() {
    let server = start(|config| {
        config.strict_models = false;
        config.load = config.load.clone().context(64);
        let files = ["nomic-bert", "bert-reranker", "qwen3"];
        config.models = files.map(|name| pelton_server::ModelConfig::file(fixture(name))).to_vec();
    });
    for model in [json!(null), json!("gpt-5")] {
        let with = |mut body: serde_json::Value| {
            body["model"] = model.clone();
            if model.is_null() {
                body.as_object_mut().unwrap().remove("model");
            }
            body
        };
        let body = with(json!({"input": [[1, 5, 2]]}));
        assert_eq!(server.post("/v1/embeddings", &body).ok()["model"], "nomic-bert");
        let body = with(json!({"prompt": [1, 2], "max_tokens": 1}));
        assert_eq!(server.post("/v1/completions", &body).ok()["model"], "qwen3");
        let body = with(json!({"query": "a", "documents": ["b"]}));
        assert_eq!(server.post("/v1/rerank", &body).ok()["model"], "bert-reranker");
    }
}

/// Base64, by its definition.
fn decode(text: &str) -> Vec<u8> {
    const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bits, mut count, mut bytes) = (0u32, 0, Vec::new());
    for c in text.chars().filter(|&c| c != '=') {
        bits = bits << 6 | u32::try_from(DIGITS.find(c).unwrap()).unwrap();
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 255) as u8);
        }
    }
    bytes
}
