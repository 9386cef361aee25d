//! Several replicas of a model: where requests go, and what the server says of all together.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use pelton_server::{Config, ModelConfig, Server};
use serde_json::{Value, json};

use crate::harness::{TestServer, config, start};

/// A server with two replicas and a long context, so that requests last.
fn two(change: impl FnOnce(&mut Config)) -> TestServer {
    start(|config| {
        config.replicas = 2;
        config.load = config.load.clone().context(1024);
        change(config);
    })
}

/// The value of a metric, by its name and labels.
fn metric(server: &TestServer, start: &str) -> f64 {
    value_of(&server.get("/metrics").body, start)
}

fn value_of(text: &str, start: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(start));
    let line = line.unwrap_or_else(|| panic!("no {start} in {text}"));
    line.trim().parse().unwrap()
}

/// The requests of both replicas.
fn requests(server: &TestServer) -> [f64; 2] {
    ["0", "1"].map(|replica| {
        let labels = format!("{{model=\"built-in\",replica=\"{replica}\"}}");
        metric(server, &format!("pelton_replica_requests{labels}"))
    })
}

fn wait_for(server: &TestServer, expected: [f64; 2]) {
    let begun = Instant::now();
    while requests(server) != expected {
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", requests(server));
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A text whose first token is there. It is generated until the stream is dropped.
pub(crate) fn busy(server: &TestServer, tokens: usize) -> TcpStream {
    let body = json!({"prompt": "Once", "max_tokens": tokens, "ignore_eos": true, "stream": true});
    let body = body.to_string();
    let mut stream = server.connect();
    stream.write_all(&server.head("POST", "/v1/completions", &[], body.len())).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let mut begin = Vec::new();
    while !begin.ends_with(b"data: ") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        begin.push(byte[0]);
    }
    stream
}

/// The answers to `ask` while each replica generates one text. A fast machine may end one before
/// the last answer, so it asks again. No request begins after the streams: two that run afterwards
/// ran all the time.
fn while_both_are_busy<T>(server: &TestServer, ask: impl Fn() -> T) -> T {
    for _ in 0..20 {
        wait_for(server, [0.0, 0.0]);
        let streams = [(); 2].map(|()| busy(server, 900));
        let answers = ask();
        let after = metric(server, "pelton_requests_running{model=\"built-in\"}");
        drop(streams);
        if after == 2.0 {
            return answers;
        }
    }
    panic!("the requests of both replicas end too soon")
}

fn completion(number: usize) -> Value {
    let prompt: Vec<usize> = (0..100).map(|i| 300 + (i * i + number * 17) % 200).collect();
    json!({"prompt": prompt, "max_tokens": 24, "temperature": 0})
}

fn text(server: &TestServer, body: &Value) -> String {
    let answer = server.post("/v1/completions", body).ok();
    answer["choices"][0]["text"].as_str().unwrap().to_owned()
}

#[test]
fn texts_are_those_of_one_replica() {
    let one = start(|config| config.load = config.load.clone().context(1024));
    let expected: Vec<String> = (0..8).map(|i| text(&one, &completion(i))).collect();
    let fingerprint = |server: &TestServer| {
        server.post("/v1/completions", &completion(0)).ok()["system_fingerprint"].clone()
    };
    let of_one = fingerprint(&one);
    drop(one);
    let server = two(|_| {});
    let texts: Vec<String> = std::thread::scope(|scope| {
        let run = |i| {
            let server = &server;
            scope.spawn(move || text(server, &completion(i)))
        };
        let all: Vec<_> = (0..8).map(run).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(texts, expected);
    assert_eq!(fingerprint(&server), of_one);
    // each replica gives each text, not only the one that has its prompt
    let _busy = busy(&server, 900);
    for (i, expected) in expected.iter().enumerate() {
        let mut body = completion(i);
        body["cache_salt"] = "other".into();
        assert_eq!(text(&server, &body), *expected);
    }
}

#[test]
fn turns_of_a_conversation_stay_at_a_replica() {
    let server = two(|_| {});
    let first = busy(&server, 900);
    let question = "once upon a time there was a cat ".repeat(20);
    let mut messages = vec![json!({"role": "user", "content": question})];
    let chat = |messages: &[Value], salt: Option<&str>| {
        let body = json!({"messages": messages, "max_tokens": 8, "temperature": 0,
                          "cache_salt": salt});
        let answer = server.post("/v1/chat/completions", &body).ok();
        let tokens = |path: &str| answer.pointer(path).unwrap().as_u64().unwrap();
        let prompt = tokens("/usage/prompt_tokens");
        let cached = tokens("/usage/prompt_tokens_details/cached_tokens");
        let text = answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
        (text, prompt, cached)
    };
    // the other replica has no request
    let (mut text, mut prompt, cached) = chat(&messages, None);
    assert_eq!((cached, requests(&server)), (0, [1.0, 0.0]));
    drop(first);
    wait_for(&server, [0.0, 0.0]);
    // without a prefix they would go to the first one of two without requests
    for _ in 0..3 {
        messages.push(json!({"role": "assistant", "content": text}));
        messages.push(json!({"role": "user", "content": "and then?"}));
        let (next, whole, cached) = chat(&messages, None);
        assert!(prompt > 64 && cached >= prompt / 64 * 64, "{cached} of {prompt}");
        (text, prompt) = (next, whole);
    }
    assert_eq!(chat(&messages, Some("another namespace")).2, 0);
    assert_eq!(requests(&server), [0.0, 0.0]);
}

#[test]
fn what_the_server_says_is_of_all_together() {
    let server = two(|_| {});
    let [metrics, info, slots] = while_both_are_busy(&server, || {
        ["/metrics", "/server_info", "/slots"].map(|path| server.get(path).body)
    });
    let metric = |start: &str| value_of(&metrics, start);
    let [info, slots] = [info, slots].map(|text| serde_json::from_str::<Value>(&text).unwrap());
    assert_eq!(metric("pelton_requests_running{model=\"built-in\"}"), 2.0);
    for replica in ["0", "1"] {
        let labels = format!("{{model=\"built-in\",replica=\"{replica}\"}}");
        assert_eq!(metric(&format!("pelton_replica_requests{labels}")), 1.0);
    }
    assert_eq!((&info["dp_size"], &info["max_running_requests"]), (&json!(2), &json!(8)));
    // four sequences of 1024 positions at each
    assert_eq!(info["max_total_num_tokens"], 2 * 4096);
    assert_eq!(info["num_running_reqs"], 2);
    let one = json!({"device": "cpu, 1 thread", "requests": 1, "error": null});
    assert_eq!(info["replicas"], json!([one, one]));
    let pages =
        "pelton_cache_config_info{model=\"built-in\",block_size=\"64\",num_gpu_blocks=\"128\"}";
    assert_eq!(metric(pages), 1.0);
    for replica in ["0", "1"] {
        let labels = format!("{{model=\"built-in\",replica=\"{replica}\"");
        assert_eq!(metric(&format!("pelton_replica_up{labels}}}")), 1.0);
        let bytes = format!("pelton_device_memory_bytes{labels},device=\"cpu\"}}");
        assert!(metric(&bytes) > 1e6);
    }
    let slots = slots.as_array().unwrap();
    let ids: Vec<u64> = slots.iter().map(|slot| slot["id"].as_u64().unwrap()).collect();
    let working = slots.iter().filter(|slot| slot["is_processing"] == true);
    let working: Vec<&Value> = working.map(|slot| &slot["id"]).collect();
    assert_eq!((ids, working), ((0..8).collect(), vec![&json!(0), &json!(4)]));
    assert_eq!(server.get("/props").ok()["total_slots"], 8);
    assert_eq!(server.get("/health").ok(), json!({"status": "ok"}));
    wait_for(&server, [0.0, 0.0]);
    let total = self::metric(&server, "pelton_generation_tokens_total{model=\"built-in\"}");
    assert!(total >= 2.0, "{total}");
}

#[test]
fn all_replicas_are_unloaded_and_loaded_again() {
    let server = two(|config| config.lazy = true);
    assert_eq!(server.get("/v1/models/built-in").ok()["status"], "unloaded");
    for _ in 0..2 {
        text(&server, &completion(1));
        assert_eq!(server.get("/server_info").ok()["replicas"].as_array().unwrap().len(), 2);
        let unload = server.post("/models/unload", &json!({"model": "built-in"})).ok();
        assert_eq!(unload["unloaded"], true);
        assert_eq!(server.get("/v1/models/built-in").ok()["status"], "unloaded");
        assert!(!server.get("/metrics").body.contains("pelton_replica_up{"));
    }
}

/// Streams at both replicas end with the shutdown.
#[test]
fn a_shutdown_waits_for_all_replicas() {
    let mut server = two(|_| {});
    let streams = [busy(&server, 200), busy(&server, 200)];
    server.stop();
    for mut stream in streams {
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        assert!(rest.contains("[DONE]"), "{rest}");
    }
    server.join();
}

#[test]
fn texts_of_a_batch_are_embedded_by_all() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let model = ModelConfig::file(folder.join("../../tests/fixtures/models/nomic-bert"));
    let of = |replicas: usize| {
        let server = start(|config| {
            config.replicas = replicas;
            config.load = config.load.clone().context(64);
            config.models = vec![model.clone()];
        });
        let texts: Vec<Vec<usize>> = (0..40).map(|i| vec![1 + i % 20, 2, 3 + i % 7]).collect();
        server.post("/v1/embeddings", &json!({"input": texts})).ok()["data"].clone()
    };
    assert_eq!(of(2), of(1));
}

/// A model of speech has one copy.
#[test]
fn speech_is_recognized_by_one_copy() {
    let server = two(|config| config.models.push(ModelConfig::built_in_speech()));
    assert_eq!(server.get("/v1/models/built-in-speech").ok()["kind"], "speech");
    let bytes = server.get("/metrics").body;
    assert!(!bytes.contains("pelton_replica_up{model=\"built-in-speech\""), "{bytes}");
}

#[test]
fn what_replicas_cannot_be() {
    let refusal = |change: &dyn Fn(&mut Config)| {
        let mut config = config();
        config.replicas = 2;
        change(&mut config);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { Server::bind(config).await.map(drop) }).unwrap_err().to_string()
    };
    for count in [0, 65] {
        let said = refusal(&|config| config.replicas = count);
        assert_eq!(said, format!("--replicas is {count}, expected 1 to 64"));
    }
    let device =
        |name: &'static str| move |config: &mut Config| config.device = name.parse().unwrap();
    for name in ["gpu:0", "gpu:0,gpu:1,gpu:2"] {
        assert!(refusal(&device(name)).contains("expected a list of as many GPUs"));
    }
    assert!(refusal(&device("gpu:0,cpu")).contains("expected GPUs alone"));
    let split = |config: &mut Config| config.load = config.load.clone().split([3, 2]);
    assert!(refusal(&split).starts_with("--split shares the layers"));
    let layers = |config: &mut Config| config.load = config.load.clone().gpu_layers(3);
    assert!(refusal(&layers).starts_with("--gpu-layers shares the layers"));
}
