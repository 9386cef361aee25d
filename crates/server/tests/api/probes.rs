//! Paths that tools ask for: vLLM's, SGLang's, and those of documents.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Write},
    path::Path,
};

use pelton_server::{ApiKey, ModelConfig};
use serde_json::{Value, json};

use crate::harness::{TestServer, shared, start};

/// A server of models of `tests/fixtures/models`.
fn fixtures(names: &[&str]) -> TestServer {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models");
    start(|config| {
        config.load = config.load.clone().context(64);
        let model = |name: &&str| ModelConfig {
            name: (*name).to_owned(),
            ..ModelConfig::file(folder.join(name).join("model.gguf"))
        };
        config.models = names.iter().map(model).collect();
    })
}

fn numbers(value: &Value, name: &str) -> Vec<f64> {
    let all = value.as_array().unwrap_or_else(|| panic!("{value}"));
    all.iter().map(|one| one[name].as_f64().unwrap()).collect()
}

fn close(one: &[f64], other: &[f64]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| (a - b).abs() < 1e-5)
}

#[test]
fn versions_and_health() {
    let server = shared();
    assert_eq!(server.get("/version").ok()["version"], env!("CARGO_PKG_VERSION"));
    let key = ApiKey { name: "a".to_owned(), secret: "secret".to_owned(), priority: 0 };
    let closed = start(|config| config.keys = vec![key]);
    for server in [server, &closed] {
        assert_eq!(server.get("/ping").status, 200);
        assert_eq!(server.send("POST", "/ping", &[], b"").status, 200);
    }
    for path in ["/version", "/load", "/is_sleeping"] {
        assert_eq!(closed.get(path).status, 401, "{path}");
    }
    for path in ["/sleep", "/wake_up", "/reset_prefix_cache", "/score", "/generate", "/pooling"] {
        assert_eq!(closed.send("POST", path, &[], b"{}").status, 401, "{path}");
    }
}

#[test]
fn the_load_is_that_of_running_requests() {
    let server = start(|_| {});
    let load = || server.get("/load").ok()["server_load"].clone();
    assert_eq!(load(), 0);
    let body = json!({"prompt": "Once", "max_tokens": 400, "ignore_eos": true, "stream": true});
    let body = body.to_string();
    let begin = || {
        let mut stream = server.connect();
        stream.write_all(&server.head("POST", "/v1/completions", &[], body.len())).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        while !line.contains("\"text\"") {
            line.clear();
            reader.read_line(&mut line).unwrap();
        }
        reader
    };
    let streams = [begin(), begin()];
    assert_eq!(load(), 2);
    drop(streams);
    while load() != 0 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// A reranker's scores are those of `/v1/rerank`.
#[test]
fn scores_of_a_reranker() {
    let server = fixtures(&["xlm-roberta-reranker"]);
    let documents = ["first", "a second one", "third"];
    let ranked = |query: &str, raw: bool| {
        let body = json!({"query": query, "documents": documents, "raw_scores": raw});
        let mut results =
            server.post("/v1/rerank", &body).ok()["results"].as_array().unwrap().clone();
        results.sort_by_key(|one| one["index"].as_u64());
        numbers(&results.into(), "relevance_score")
    };
    let score = |body: Value| {
        let answer = server.post("/v1/score", &body).ok();
        assert_eq!(answer["object"], "list");
        assert!(answer["usage"]["prompt_tokens"].as_u64().unwrap() > 3);
        numbers(&answer["data"], "score")
    };
    let one = ranked("which one", false);
    assert!(close(&score(json!({"text_1": "which one", "text_2": documents})), &one));
    assert!(close(&score(json!({"data_1": ["which one"], "data_2": documents})), &one));
    assert!(close(&score(json!({"queries": "which one", "documents": "third"})), &one[2..]));
    let raw = json!({"text_1": "which one", "text_2": documents, "use_activation": false});
    assert!(close(&score(raw), &ranked("which one", true)));
    let queries = ["which one", "another", "third"];
    let each: Vec<f64> = (0..3).map(|i| ranked(queries[i], false)[i]).collect();
    assert!(close(&score(json!({"text_1": queries, "text_2": documents})), &each));
    for path in ["/reranking", "/v1/reranking", "/v2/rerank"] {
        let body = json!({"query": "which one", "documents": documents});
        let answer = server.post(path, &body).ok();
        let best = one.iter().copied().fold(f64::MIN, f64::max);
        assert!(close(&numbers(&answer["results"], "relevance_score")[..1], &[best]), "{path}");
    }
    for (body, part) in [
        (json!({"text_1": ["a", "b"], "text_2": documents}), "text_1 has 2 texts and text_2 has 3"),
        (json!({"text_1": "a"}), "text_2 is missing"),
        (json!({"text_2": "a"}), "text_1 is missing"),
        (json!({"data_1": "a", "data_2": []}), "data_2 is missing"),
        (json!({"text_1": "a", "text_2": [1]}), "text_2[0] is 1"),
    ] {
        let answer = server.post("/score", &body);
        assert!(answer.status == 400 && answer.body.contains(part), "{body}: {}", answer.body);
    }
}

/// Embeddings have a cosine, by its definition.
#[test]
fn scores_and_pooling_of_embeddings() {
    let server = fixtures(&["bert"]);
    let texts = ["a cat", "the cat", "numbers"];
    let body = json!({"input": texts, "normalize": false});
    let data = server.post("/v1/embeddings", &body).ok()["data"].clone();
    let vectors: Vec<Vec<f64>> = (0..3)
        .map(|i| {
            let values = data[i]["embedding"].as_array().unwrap();
            values.iter().map(|value| value.as_f64().unwrap()).collect()
        })
        .collect();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let cosine = |i: usize, j: usize| {
        let (a, b) = (&vectors[i], &vectors[j]);
        dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
    };
    let body = json!({"text_1": texts[0], "text_2": texts});
    let scores = numbers(&server.post("/score", &body).ok()["data"], "score");
    assert!(close(&scores, &[cosine(0, 0), cosine(0, 1), cosine(0, 2)]), "{scores:?}");
    let body = json!({"text_1": [texts[0], texts[1]], "text_2": [texts[2], texts[0]]});
    let scores = numbers(&server.post("/score", &body).ok()["data"], "score");
    assert!(close(&scores, &[cosine(0, 2), cosine(1, 0)]), "{scores:?}");

    let pooled = server.post("/pooling", &json!({"input": texts, "use_activation": false})).ok();
    for (i, vector) in vectors.iter().enumerate() {
        let values = pooled["data"][i]["data"].as_array().unwrap();
        let values: Vec<f64> = values.iter().map(|value| value.as_f64().unwrap()).collect();
        assert!(close(&values, vector));
    }
    let task = server.post("/pooling", &json!({"input": "a", "task": "classify"}));
    assert!(task.status == 400 && task.body.contains("task is"), "{}", task.body);
}

#[test]
fn what_the_server_does_not_do_is_said() {
    let server = shared();
    for (path, part) in [
        ("/classify", "expected /v1/score or /v1/rerank"),
        ("/props", "properties are set when the server starts"),
        ("/api/create", "pelton convert"),
        ("/api/copy", "--alias NAME=MODEL"),
        ("/api/push", "hf upload"),
    ] {
        let answer = server.send("POST", path, &[], b"{}");
        assert!(answer.status == 501 && answer.body.contains(part), "{path}: {}", answer.body);
    }
}

#[test]
fn sleep_unloads_and_wake_up_loads() {
    let server = start(|_| {});
    let act = |path: &str| server.send("POST", path, &[], b"").status;
    let state = || {
        let model = server.get("/v1/models").ok()["data"][0]["status"].clone();
        (server.get("/is_sleeping").ok()["is_sleeping"].clone(), model)
    };
    assert_eq!(state(), (json!(false), json!("loaded")));
    assert_eq!(act("/sleep?level=3"), 400);
    assert_eq!((act("/sleep?level=1"), act("/sleep")), (200, 200));
    assert_eq!(state(), (json!(true), json!("unloaded")));
    assert_eq!(server.get("/health").status, 200);
    assert_eq!(act("/wake_up"), 200);
    assert_eq!(state(), (json!(false), json!("loaded")));
    // a request wakes its model too
    assert_eq!(act("/sleep?level=2"), 200);
    server.post("/v1/completions", &json!({"prompt": "Once", "max_tokens": 1})).ok();
    assert_eq!(state(), (json!(false), json!("loaded")));
    assert_eq!(act("/wake_up"), 200);
}

#[test]
fn only_admin_keys_bring_a_server_to_rest() {
    let key = |name: &str| ApiKey { name: name.to_owned(), secret: name.to_owned(), priority: 0 };
    let server = start(|config| {
        config.keys = vec![key("user")];
        config.admin_keys = vec![key("admin")];
    });
    for path in ["/reset_prefix_cache", "/sleep", "/wake_up"] {
        let status = |key: &str| server.send("POST", path, &[("x-api-key", key)], b"").status;
        assert_eq!([status("user"), status("other"), status("admin")], [403, 401, 200], "{path}");
    }
}

#[test]
fn a_reset_of_the_cache_forgets_prefixes() {
    let server = start(|_| {});
    let body = json!({"prompt": "one two three ".repeat(40), "max_tokens": 1});
    let cached = || {
        let usage = server.post("/v1/completions", &body).ok()["usage"].clone();
        usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap()
    };
    assert_eq!(cached(), 0);
    assert!(cached() >= 64);
    assert_eq!(server.send("POST", "/reset_prefix_cache", &[], b"").status, 200);
    assert_eq!(cached(), 0);
    assert!(cached() >= 64);
}

/// The texts of SGLang's path are those of `/v1/completions`.
#[test]
fn texts_of_sglang() {
    let server = shared();
    let text = |prompt: Value, more: Value| {
        let mut body = json!({"prompt": prompt, "max_tokens": 12, "temperature": 0});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.post("/v1/completions", &body).ok()["choices"][0]["text"].clone()
    };
    let params = json!({"max_new_tokens": 12, "temperature": 0});
    let prompt = "Once upon a time";
    let expected = text(json!(prompt), json!({}));
    let answer = server.post("/generate", &json!({"text": prompt, "sampling_params": params})).ok();
    assert_eq!(answer["text"], expected);
    let (meta, ids) = (&answer["meta_info"], answer["output_ids"].as_array().unwrap());
    assert_eq!(meta["finish_reason"], json!({"type": "length", "length": 12}));
    assert_eq!((&meta["completion_tokens"], ids.len()), (&json!(12), 12));
    let decoded = server.post("/detokenize", &json!({"tokens": ids})).ok();
    assert_eq!(decoded["content"].as_str().unwrap().trim(), expected.as_str().unwrap().trim());

    let ids = server.post("/tokenize", &json!({"prompt": prompt})).ok()["tokens"].clone();
    let body = json!({"input_ids": [ids, ids], "sampling_params": params, "return_logprob": true});
    let answer = server.post("/generate", &body).ok();
    assert_eq!(answer.as_array().unwrap().len(), 2);
    for one in answer.as_array().unwrap() {
        assert_eq!(one["text"], expected);
        let log_probs = one["meta_info"]["output_token_logprobs"].as_array().unwrap();
        let of = |i: usize| (log_probs[i][0].as_f64().unwrap(), log_probs[i][1].clone());
        assert!((0..12).all(|i| of(i).0 <= 0.0 && of(i).1 == one["output_ids"][i]));
    }
    let body = json!({"text": [prompt], "sampling_params": {"n": 3, "max_new_tokens": 2}});
    assert_eq!(server.post("/generate", &body).ok().as_array().unwrap().len(), 3);

    let word = expected.as_str().unwrap().split_whitespace().nth(1).unwrap();
    let params = json!({"temperature": 0, "stop": word});
    let body = json!({"text": prompt, "sampling_params": params, "stream": true});
    let chunks = server.post("/generate", &body).chunks();
    let last = chunks.last().unwrap();
    assert_eq!(last["meta_info"]["finish_reason"], json!({"type": "stop", "matched": word}));
    assert_eq!(last["text"], text(json!(prompt), json!({"stop": word})));
    // each has all of those before it
    assert!(chunks.len() > 1);
    assert!(chunks.windows(2).all(|two| {
        two[1]["text"].as_str().unwrap().starts_with(two[0]["text"].as_str().unwrap())
    }));
    let params = json!({"regex": "[0-9]{3}", "max_new_tokens": 40});
    let answer = server.post("/generate", &json!({"text": prompt, "sampling_params": params})).ok();
    let digits = answer["text"].as_str().unwrap();
    assert!(digits.len() == 3 && digits.bytes().all(|b| b.is_ascii_digit()), "{digits}");
    for (body, part) in [
        (json!({"text": "a", "input_ids": [1]}), "expected one of them"),
        (json!({}), "text is missing"),
        (
            json!({"text": "a", "sampling_params": {"max_tokens": 3}}),
            "sampling_params.max_tokens is an",
        ),
        (json!({"text": "a", "sampling_params": {"json_schema": "{"}}), "JSON"),
    ] {
        let answer = server.post("/generate", &body);
        assert!(answer.status == 400 && answer.body.contains(part), "{body}: {}", answer.body);
    }
}

/// A path, whatever its part is called.
fn plain(path: &str) -> String {
    match path.split_once('{') {
        Some((before, _)) => format!("{before}{{}}"),
        None => path.to_owned(),
    }
}

/// The table of paths in `docs/serve.md` and the OpenAPI document have the same ones, and the
/// server answers them.
#[test]
fn documents_list_the_paths() {
    let server = shared();
    let text = include_str!("../../../../docs/serve.md");
    let table = text.split("## Paths").nth(1).unwrap().split("\n\n").nth(1).unwrap();
    let words = table.split('`').skip(1).step_by(2).filter(|word| word.starts_with('/'));
    let listed: BTreeSet<String> = words.map(plain).collect();
    let document = server.get("/openapi.json").ok();
    for path in document["paths"].as_object().unwrap().keys() {
        assert!(listed.contains(&plain(path)), "{path} is not in docs/serve.md");
    }
    for path in &listed {
        let answer = server.get(&path.replace("{}", "x"));
        assert!(!answer.body.contains("there is no such path"), "{path}: {}", answer.body);
    }
}
