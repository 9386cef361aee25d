//! The answers to routers.

use pelton_server::MetricNames;
use serde_json::json;

use crate::harness::{shared, start};

#[test]
fn prompts_are_rendered_to_the_tokens_that_they_are_run_with() {
    let server = shared();
    let chat = json!({"messages": [{"role": "user", "content": "Hello there"}], "max_tokens": 1});
    let rendered = server.post("/v1/chat/completions/render", &chat).ok();
    assert_eq!(rendered["token_ids"], server.post("/tokenize", &chat).ok()["tokens"]);
    let run = server.post("/v1/chat/completions", &chat).ok();
    let tokens = rendered["token_ids"].as_array().unwrap();
    assert_eq!(run["usage"]["prompt_tokens"], tokens.len());
    assert!(rendered["request_id"].as_str().unwrap().starts_with("chatcmpl-"));
    let prompts = json!({"prompt": ["Once upon", "a time"], "max_tokens": 1});
    let rendered = server.post("/v1/completions/render", &prompts).ok();
    for (one, text) in rendered.as_array().unwrap().iter().zip(["Once upon", "a time"]) {
        assert_eq!(
            one["token_ids"],
            server.post("/tokenize", &json!({"prompt": text})).ok()["tokens"]
        );
    }
    let ids = server.post("/v1/completions/render", &json!({"prompt": [5, 6, 7]})).ok();
    assert_eq!(ids[0]["token_ids"], json!([5, 6, 7]));
    assert_eq!(server.post("/v1/completions/render", &json!({})).status, 400);
}

#[test]
fn facts_of_the_server_and_of_its_model() {
    let server = shared();
    let info = server.get("/server_info").ok();
    assert_eq!((&info["max_running_requests"], &info["page_size"]), (&json!(4), &json!(64)));
    // four sequences of 512 positions
    assert_eq!(info["max_total_num_tokens"], 2048);
    let model = server.get("/model_info").ok();
    assert_eq!((&model["model_path"], &model["is_generation"]), (&json!("built-in"), &json!(true)));
}

#[test]
fn capacity_of_the_cache_is_a_metric() {
    let server = start(|config| config.metrics = MetricNames::Vllm);
    let metrics = server.get("/metrics").body;
    let line = "vllm:cache_config_info{model_name=\"built-in\",engine=\"0\",block_size=\"64\",num_gpu_blocks=\"32\"} 1";
    assert!(metrics.lines().any(|other| other == line), "{metrics}");
    // a model without adapters has no value
    assert!(!metrics.contains("vllm:lora_requests_info{"));
}

#[test]
fn answers_and_metrics_name_the_devices() {
    let server = shared();
    let chat = json!({"messages": [{"role": "user", "content": "Hello there"}], "max_tokens": 1});
    let found = server.post("/v1/chat/completions", &chat).ok()["system_fingerprint"].clone();
    let expected = format!("pelton-{}-", env!("CARGO_PKG_VERSION"));
    assert!(found.as_str().unwrap().starts_with(&expected), "{found}");
    let prompt = json!({"prompt": "Once upon", "max_tokens": 1});
    assert_eq!(server.post("/v1/completions", &prompt).ok()["system_fingerprint"], found);
    let metrics = server.get("/metrics").body;
    let line = "pelton_device_memory_bytes{model=\"built-in\",replica=\"0\",device=\"cpu\"} ";
    let line = metrics.lines().find_map(|other| other.strip_prefix(line));
    assert!(line.unwrap().parse::<u64>().unwrap() > 1_000_000, "{metrics}");
}
