//! Tokens, templates, state, metrics.

use pelton_server::MetricNames;
use serde_json::{Value, json};

use crate::harness::{shared, start};

#[test]
fn tokens_of_texts() {
    let server = shared();
    let text = "Once upon a time, \u{1f600}";
    let json = server.post("/tokenize", &json!({"content": text})).ok();
    let back = server.post("/detokenize", &json!({"tokens": json["tokens"]})).ok();
    assert_eq!((&back["content"], &back["prompt"]), (&json!(text), &json!(text)));
    assert_eq!(json["count"], json["tokens"].as_array().unwrap().len());
    let pieces = server.post("/tokenize", &json!({"content": text, "with_pieces": true})).ok();
    let ids: Vec<&Value> =
        pieces["tokens"].as_array().unwrap().iter().map(|piece| &piece["id"]).collect();
    assert_eq!(json!(ids), json["tokens"]);
    let with = server.post("/tokenize", &json!({"prompt": text})).ok();
    let without = server.post("/tokenize", &json!({"prompt": text, "add_special_tokens": false}));
    assert!(with["count"].as_u64() >= without.ok()["count"].as_u64());
}

/// A text beyond the bound that the documentation gives is refused before it is tokenized.
#[test]
fn long_texts() {
    let server = shared();
    let tokens =
        |bytes: usize| server.post("/tokenize", &json!({"content": "a ".repeat(bytes / 2)}));
    let ids = tokens(1 << 20).ok()["tokens"].clone();
    let text = server.post("/detokenize", &json!({"tokens": ids})).ok()["content"].clone();
    assert!(text == "a ".repeat(1 << 19));
    let refused = tokens((1 << 20) + 2);
    assert_eq!(refused.status, 400);
    assert!(refused.body.contains("at most 1048576"), "{}", refused.body);
}

#[test]
fn templates_and_properties() {
    let server = shared();
    let body = json!({"messages": [{"role": "user", "content": "Hello there"}]});
    let prompt = server.post("/apply-template", &body).ok()["prompt"].clone();
    assert!(prompt.as_str().unwrap().contains("Hello there"));
    let count =
        server.post("/v1/chat/completions/input_tokens", &body).ok()["input_tokens"].clone();
    let tokens = server.post("/tokenize", &body).ok();
    assert_eq!(tokens["count"], count);
    let props = server.get("/props").ok();
    assert_eq!(props["total_slots"], 4);
    assert_eq!(props["modalities"]["vision"], false);
    // a prompt with pictures, for a model that has no encoder of them
    let marker = props["media_marker"].as_str().unwrap();
    let prompt = json!({"prompt_string": format!("See {marker}"), "multimodal_data": ["AAAA"]});
    let refused = server.post("/completion", &json!({"prompt": prompt, "n_predict": 1}));
    assert!(refused.status == 400 && refused.body.contains("mmproj"), "{}", refused.body);
    let prompt = json!({"prompt_string": "Once upon", "multimodal_data": []});
    server.post("/completion", &json!({"prompt": prompt, "n_predict": 1})).ok();
    assert_eq!(props["default_generation_settings"]["n_ctx"], 512);
    assert_eq!(server.get("/slots").ok().as_array().unwrap().len(), 4);
    assert!(server.get("/tokenizer_info").ok()["eos_token"].is_string());
    let page = server.get("/docs");
    assert!(page.body.contains("/v1/chat/completions"), "{}", page.body);
    // the built-in model knows no text in the middle
    let infill = server.post("/infill", &json!({"input_prefix": "a", "input_suffix": "b"}));
    assert_eq!(infill.status, 400);
    assert!(infill.body.contains("middle"));
}

/// The name and the labels of each sample, and its value.
fn samples(text: &str) -> Vec<(String, f64)> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        })
        .collect()
}

#[test]
fn metrics() {
    let server = start(|_| {});
    let before = server.get("/metrics").body;
    // gauges and counters are there from the start
    assert!(before.contains("pelton_requests_running{model=\"built-in\"} 0\n"), "{before}");
    assert!(before.contains("pelton_requests_total{model=\"built-in\",outcome=\"length\"} 0\n"));
    server
        .post("/v1/completions", &json!({"prompt": "Once", "max_tokens": 5, "ignore_eos": true}))
        .ok();
    let after = server.get("/metrics").body;
    let value = |name: &str| {
        let all = samples(&after);
        all.iter().find(|(found, _)| found == name).unwrap_or_else(|| panic!("{name}: {after}")).1
    };
    assert_eq!(value("pelton_requests_total{model=\"built-in\",outcome=\"length\"}"), 1.0);
    assert_eq!(value("pelton_generation_tokens_total{model=\"built-in\"}"), 5.0);
    assert_eq!(value("pelton_time_to_first_token_seconds_count{model=\"built-in\"}"), 1.0);
    assert_eq!(value("pelton_inter_token_latency_seconds_count{model=\"built-in\"}"), 4.0);
    assert!(
        after.contains("pelton_http_requests_total{route=\"/v1/completions\",status=\"200\"} 1")
    );
    // every sample belongs to a family with a type, as the format demands
    for (name, _) in samples(&after) {
        let name = name.split('{').next().unwrap();
        let family = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| name.strip_suffix(end))
            .filter(|base| after.contains(&format!("# TYPE {base} histogram")))
            .unwrap_or(name);
        assert!(after.contains(&format!("# TYPE {family} ")), "{name}");
    }
}

/// The names that the dashboards of vLLM query.
#[test]
fn metrics_of_vllm() {
    let server = start(|config| config.metrics = MetricNames::Vllm);
    let text = server.get("/metrics").body;
    let labels = "{model_name=\"built-in\",engine=\"0\"";
    for name in [
        "num_requests_running",
        "num_requests_waiting",
        "kv_cache_usage_perc",
        "time_to_first_token_seconds_bucket",
        "inter_token_latency_seconds_bucket",
        "request_time_per_output_token_seconds_bucket",
        "time_per_output_token_seconds_bucket",
        "e2e_request_latency_seconds_bucket",
        "request_queue_time_seconds_bucket",
        "request_prefill_time_seconds_bucket",
        "request_decode_time_seconds_bucket",
        "request_prompt_tokens_bucket",
        "request_generation_tokens_bucket",
        "prompt_tokens_total",
        "generation_tokens_total",
        "prefix_cache_queries_total",
        "prefix_cache_hits_total",
        "request_success_total",
        "num_preemptions_total",
    ] {
        assert!(text.contains(&format!("vllm:{name}{labels}")), "{name}: {text}");
    }
    assert!(!text.contains("pelton_"));
}

/// Every metric that the dashboard queries is there.
#[test]
fn the_dashboard_finds_its_metrics() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = folder.join("../../deploy/grafana.json");
    let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    // requests are counted by their status: there has to be one
    assert_eq!(shared().get("/v1/models").status, 200);
    let text = shared().get("/metrics").body;
    let mut queries = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
            let names = query.split(|c| !is_name(c)).filter(|word| word.starts_with("pelton_"));
            for name in names {
                let found =
                    text.contains(&format!("\n{name}{{")) || text.contains(&format!("\n{name} "));
                assert!(found, "{name} of {query} is not in /metrics");
                queries += 1;
            }
        }
    }
    assert!(queries >= 10, "{queries}");
}
