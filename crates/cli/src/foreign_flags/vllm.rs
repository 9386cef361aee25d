//! The options of `vllm serve`, for `pelton serve`.

use super::{
    convert, rotations,
    table::{
        Fate, Peer, Row, Takes, Takes::Switch, by, flag, is, noted, noted_flag, refused,
        refused_flag,
    },
};

pub(super) const PEER: Peer =
    Peer { name: "vllm serve", commands: &["serve"], tables: &[ENGINE, FRONT] };

const ITSELF: &str = "Pelton does this by itself";
const PICTURES: &str = "clients send pictures as data: URLs";
const NO_PICTURES: &str = "the files of the model say how its pictures are prepared";
const NODES: &str = "a server runs on one machine: --replicas N uses several of its GPUs";
const FORMATS: &str = "the model's files show their form";
const PYTHON: &str = "Pelton runs no code in Python";
const EXPERTS: &str = "--device gpu:0,gpu:1 splits a model by its layers";
const CACHE: &str = "prompts stay in the memory of --kv-memory";
const LOGS: &str = "the environment variable RUST_LOG chooses log lines";

const fn switch(names: &'static str, why: &'static str) -> Row {
    Row::new(names, Switch, Fate::Noted(why))
}

const fn list(names: &'static str, fate: Fate) -> Row {
    Row::new(names, Takes::List, fate)
}

/// The engine's arguments.
const ENGINE: &[Row] = &[
    Row::new("--model", Takes::Value, Fate::Model),
    list("--served-model-name", Fate::By(convert::aliases, "--alias")),
    by("--max-model-len", convert::context, "--context"),
    is("--max-num-seqs", "--parallel"),
    by("-tp --tensor-parallel-size", convert::gpus, "--device"),
    by("-pp --pipeline-parallel-size", convert::gpus, "--device"),
    is("-dp --data-parallel-size --dp-size", "--replicas"),
    by("--gpu-memory-utilization", convert::share_of_memory, "--kv-memory"),
    is("--kv-cache-memory-bytes", "--kv-memory"),
    by("--kv-cache-dtype", convert::kv_of_vllm, "--kv"),
    by("-q --quantization", quantization, ""),
    by("--dtype", dtype, ""),
    is("--seed", "--seed"),
    is("--hf-token", "--hf-token"),
    by("--speculative-config -sc", convert::speculation_of_vllm, "--draft"),
    noted_flag("--enable-lora", "--lora PATH loads an adapter"),
    noted("--max-loras", ITSELF),
    noted("--max-lora-rank", "an adapter's file has its rank"),
    noted("--max-cpu-loras", ITSELF),
    noted("--lora-dtype", ITSELF),
    noted("--lora-extra-vocab-size", "an adapter has the vocabulary of its model"),
    noted_flag("--fully-sharded-loras", ITSELF),
    is("--otlp-traces-endpoint", "--otlp"),
    noted("--collect-detailed-traces", "a span has the times of its request"),
    by("--kv-events-config", events, "--kv-events"),
    noted("--tokenizer-mode", FORMATS),
    refused("--tokenizer", "the tokenizer is in the model's folder or file"),
    refused("--hf-config-path", "config.json is in the model's folder"),
    refused_flag("--skip-tokenizer-init", "requests may have token ids: \"prompt\": [1, 2, 3]"),
    by("--revision --tokenizer-revision", revision, ""),
    noted("--code-revision", PYTHON),
    noted_flag("--trust-remote-code", PYTHON),
    noted("--load-format", FORMATS),
    noted("--config-format", FORMATS),
    noted("--model-impl", ITSELF),
    noted("--runner --task --convert", "the model's files show what it does"),
    refused("--download-dir", "the environment variable HF_HOME names the folder of downloads"),
    noted("--safetensors-load-strategy", ITSELF),
    noted("--model-loader-extra-config", FORMATS),
    noted("--ignore-patterns", "a pull takes the files that Pelton reads"),
    noted_flag("--use-tqdm-on-load --no-use-tqdm-on-load", "a terminal shows a bar"),
    noted("--pt-load-map-location", FORMATS),
    noted_flag("--enforce-eager --no-enforce-eager", ITSELF),
    noted("--max-seq-len-to-capture", ITSELF),
    noted("--max-logprobs", "a request gets the log-probabilities of at most 20 tokens"),
    refused("--logprobs-mode", "log-probabilities are those of the model before sampling"),
    noted_flag("--disable-sliding-window", ITSELF),
    noted_flag("--disable-cascade-attn", ITSELF),
    refused_flag("--enable-prompt-embeds", "a prompt is a text or token ids"),
    refused("--allowed-local-media-path", PICTURES),
    is("--allowed-media-domains", "--media-hosts"),
    by("--rope-scaling", rotations::of_config, ""),
    is("--rope-theta", "--rope-freq-base"),
    by("--hf-overrides", overrides, ""),
    noted("--generation-config", "the defaults of sampling are those of the model's files"),
    by("--override-generation-config", generation, ""),
    noted_flag("--enable-sleep-mode", "/sleep and /wake_up are always there"),
    refused("--logits-processors", PYTHON),
    refused("--logits-processor-pattern", PYTHON),
    refused("--io-processor-plugin", PYTHON),
    by("--pooler-config --override-pooler-config", pooler, "--pooling"),
    refused("--override-attention-dtype", "the types of numbers are those of the device"),
    noted("--distributed-executor-backend", "one process has all GPUs"),
    by("--nnodes", one_node, ""),
    by("--node-rank", first_node, ""),
    noted("--master-addr", "a server has one machine"),
    noted("--master-port", "a server has one machine"),
    by("--data-parallel-rank -dpn", first_node, ""),
    by("--data-parallel-start-rank -dpr", first_node, ""),
    is("--data-parallel-size-local -dpl", "--replicas"),
    noted("--data-parallel-address -dpa", "a server has one machine"),
    noted("--data-parallel-rpc-port -dpp", "a server has one machine"),
    noted("--data-parallel-backend -dpb", "one process has all replicas"),
    refused_flag("--data-parallel-hybrid-lb -dph", NODES),
    refused_flag("--data-parallel-external-lb -dpe", NODES),
    by("--decode-context-parallel-size -dcp", one_part, ""),
    by("--prefill-context-parallel-size -pcp", one_part, ""),
    noted_flag("--enable-expert-parallel -ep", EXPERTS),
    noted_flag("--enable-eplb", EXPERTS),
    noted("--eplb-config", EXPERTS),
    noted("--expert-placement-strategy", EXPERTS),
    noted("--all2all-backend", "one process has all GPUs"),
    noted_flag("--enable-dbo", ITSELF),
    noted("--dbo-decode-token-threshold", ITSELF),
    noted("--dbo-prefill-token-threshold", ITSELF),
    noted_flag("--disable-nccl-for-dp-synchronization", "NCCL is not used"),
    noted("--max-parallel-loading-workers", ITSELF),
    noted_flag("--ray-workers-use-nsight", "Ray is not used"),
    noted_flag("--disable-custom-all-reduce", "NCCL is not used"),
    by("--worker-cls", own_worker, ""),
    refused("--worker-extension-cls", PYTHON),
    noted("--block-size", "pages have 64 positions"),
    noted("--swap-space", "requests that do not fit wait, and none is swapped"),
    noted("--num-gpu-blocks-override", "--kv-memory SIZE sets the memory for keys and values"),
    noted_flag("--enable-prefix-caching --no-enable-prefix-caching", CACHE),
    noted("--prefix-caching-hash-algo", CACHE),
    refused(
        "--cpu-offload-gb",
        "--gpu-layers N and --host-experts N keep layers in the CPU's memory",
    ),
    noted_flag("--calculate-kv-scales", "keys and values in 8 bits have a scale of each block"),
    noted_flag("--kv-sharing-fast-prefill", ITSELF),
    noted("--mamba-cache-dtype", "recurrent states have 32 bits"),
    noted("--mamba-ssm-cache-dtype", "recurrent states have 32 bits"),
    noted("--mamba-block-size", ITSELF),
    noted("--mamba-cache-mode", ITSELF),
    noted("--kv-offloading-size", CACHE),
    noted("--kv-offloading-backend", CACHE),
    noted("--limit-mm-per-prompt", "a chat has at most 16 pictures"),
    noted_flag("--language-model-only", NO_PICTURES),
    refused_flag("--enable-mm-embeds", PICTURES),
    noted("--media-io-kwargs", NO_PICTURES),
    noted("--mm-processor-kwargs", NO_PICTURES),
    noted("--mm-processor-cache-gb", NO_PICTURES),
    noted_flag("--disable-mm-preprocessor-cache", NO_PICTURES),
    noted("--mm-processor-cache-type", NO_PICTURES),
    noted("--mm-shm-cache-max-object-size-mb", NO_PICTURES),
    noted("--mm-encoder-tp-mode", NO_PICTURES),
    noted("--mm-encoder-attn-backend", NO_PICTURES),
    noted_flag("--interleave-mm-strings", NO_PICTURES),
    noted_flag("--skip-mm-profiling", NO_PICTURES),
    noted("--video-pruning-rate", NO_PICTURES),
    noted("--show-hidden-metrics-for-version", "/metrics has all metrics"),
    noted("--max-num-batched-tokens", "--target-ttft and --target-tbt decide how long a pass is"),
    noted("--max-num-partial-prefills", ITSELF),
    noted("--max-long-partial-prefills", ITSELF),
    noted("--long-prefill-token-threshold", ITSELF),
    noted("--num-lookahead-slots", ITSELF),
    by("--scheduling-policy", policy, ""),
    switch("--enable-chunked-prefill", ITSELF),
    noted_flag(
        "--no-enable-chunked-prefill",
        "a prompt is computed in parts while others are answered",
    ),
    noted_flag("--disable-chunked-mm-input", NO_PICTURES),
    refused("--scheduler-cls", PYTHON),
    noted_flag("--disable-hybrid-kv-cache-manager --no-disable-hybrid-kv-cache-manager", ITSELF),
    noted_flag("--async-scheduling --no-async-scheduling", ITSELF),
    noted("--stream-interval", "tokens are sent as they come"),
    list("--cudagraph-capture-sizes --cuda-graph-sizes", Fate::Noted(ITSELF)),
    noted("--max-cudagraph-capture-size", ITSELF),
    noted("-O --optimization-level -cc --compilation-config", ITSELF),
    noted_flag("-O0 -O1 -O2 -O3", ITSELF),
    noted_flag("--enable-reasoning", "reasoning is parsed by the chat template"),
    noted_flag("--use-v2-block-manager --disable-frontend-multiprocessing", ITSELF),
    noted("--num-scheduler-steps --preemption-mode", ITSELF),
    noted("--attention-backend", ITSELF),
    noted("--attention-config -ac", ITSELF),
    noted("--moe-backend", ITSELF),
    noted("--structured-outputs-config", "constraints are compiled by llguidance"),
    noted("--guided-decoding-backend", "constraints are compiled by llguidance"),
    by("--reasoning-parser", parser, ""),
    refused("--reasoning-parser-plugin", PYTHON),
    by("--kv-transfer-config", transfer, ""),
    by("--additional-config", additional, ""),
    noted_flag("--disable-log-stats", "/metrics has the numbers"),
    noted_flag("--aggregate-engine-logging", "/metrics has the numbers"),
    noted_flag(
        "--enable-log-requests --no-enable-log-requests",
        "a line is logged for each request",
    ),
    noted_flag(
        "--disable-log-requests --no-disable-log-requests",
        "a line is logged for each request",
    ),
];

/// The server's arguments.
const FRONT: &[Row] = &[
    is("--host", "--host"),
    is("--port", "--port"),
    by("--uds", |path, own| Words(vec![format!("{own}=unix:{path}")]), "--host"),
    list("--api-key", Fate::By(convert::keys, "--api-key")).env("VLLM_API_KEY"),
    list("--lora-modules", Fate::By(convert::modules, "--lora")),
    is("--chat-template", "--chat-template"),
    noted("--chat-template-content-format", "the template shows its form"),
    refused_flag(
        "--trust-request-chat-template",
        "--chat-template FILE is the template of all requests",
    ),
    is("--default-chat-template-kwargs", "--chat-template-kwargs"),
    by("--response-role", role, ""),
    refused_flag("--return-tokens-as-token-ids", "/tokenize gives the ids of a text"),
    noted_flag("--enable-auto-tool-choice", "tool calls are parsed whenever a request has tools"),
    noted_flag("--exclude-tools-when-tool-choice-none", ITSELF),
    by("--tool-call-parser", parser, ""),
    refused("--tool-parser-plugin", PYTHON),
    refused("--tool-server", "the server runs no tools: `pelton chat --mcp COMMAND` does"),
    refused(
        "--log-config-file",
        "--log-format json writes log lines as JSON, and RUST_LOG chooses them",
    ),
    noted("--max-log-len", "--log-prompts writes whole prompts"),
    noted_flag("--enable-prompt-tokens-details", "usage has the cached tokens of a prompt"),
    noted_flag("--enable-server-load-tracking", "/metrics has the load"),
    noted_flag(
        "--enable-force-include-usage",
        "a stream has its usage where a request asks for it",
    ),
    refused_flag("--enable-tokenizer-info-endpoint", "/props has the chat template"),
    flag("--enable-log-outputs", "--log-prompts"),
    noted_flag("--enable-log-deltas --no-enable-log-deltas", "--log-prompts writes whole texts"),
    noted_flag("--log-error-stack", "an error is one line"),
    refused_flag("--tokens-only", "/v1/completions takes and gives texts"),
    noted("--fingerprint-mode", "system_fingerprint names the version and the device"),
    noted("--fingerprint-value", "system_fingerprint names the version and the device"),
    noted("--uvicorn-log-level", LOGS),
    noted_flag("--disable-uvicorn-access-log", LOGS),
    noted("--disable-access-log-for-endpoints", LOGS),
    noted_flag("--allow-credentials", "keys are headers, and no cookies"),
    by("--allowed-origins", convert::origins, "--cors"),
    noted("--allowed-methods", "pages may send what the server answers"),
    noted("--allowed-headers", "pages may send what the server reads"),
    is("--ssl-keyfile", "--tls-key"),
    is("--ssl-certfile", "--tls-cert"),
    refused("--ssl-ca-certs", "a proxy in front of Pelton asks clients for certificates"),
    noted_flag("--enable-ssl-refresh", "a certificate is read again when it changes"),
    by("--ssl-cert-reqs", no_certificates, ""),
    refused("--ssl-ciphers", "the ciphers are those of TLS 1.2 and 1.3"),
    noted("--root-path", "a proxy that takes its prefix away needs nothing of the server"),
    refused("--middleware", PYTHON),
    noted_flag("--enable-request-id-headers", "every answer has the header X-Request-Id"),
    noted_flag("--disable-fastapi-docs", "/docs describes the server"),
    noted("--h11-max-incomplete-event-size", "--max-body N is the limit of a body"),
    noted("--h11-max-header-count", ITSELF),
    noted_flag("--enable-offline-docs", "/docs needs no network"),
    noted("--api-server-count -asc", "one process answers all requests"),
    refused_flag("--headless", NODES),
];

use convert::Became::{self, Noted, Refused, Words};

/// How weights are packed, which the files show.
fn quantization(value: &str, _: &'static str) -> Became {
    match value {
        "gguf" | "compressed-tensors" | "mxfp4" | "modelopt" => Noted,
        _ => Refused("--quantize q8_0 or q4_k_m converts weights of 16 bits at load".to_owned()),
    }
}

/// The revision of a repository.
fn revision(value: &str, _: &'static str) -> Became {
    match value {
        "main" => Noted,
        _ => Refused(
            "https://huggingface.co/OWNER/NAME/blob/REVISION/FILE names a file of a revision"
                .to_owned(),
        ),
    }
}

/// Whether a value is an object in JSON without a key.
fn is_empty_object(value: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(value)
        .is_ok_and(|value| value.as_object().is_some_and(serde_json::Map::is_empty))
}

/// Changes of config.json.
fn overrides(value: &str, _: &'static str) -> Became {
    if is_empty_object(value) {
        return Noted;
    }
    let changes: serde_json::Value = serde_json::from_str(value).unwrap_or_default();
    let ropes = ["rope_parameters", "rope_scaling"].map(|key| &changes[key]);
    match ropes.into_iter().find(|rope| rope.is_object()) {
        Some(rope) if changes.as_object().is_some_and(|all| all.len() == 1) => {
            rotations::scaling(rope)
        }
        _ => Refused(
            "config.json is in the model's folder, and --override-kv changes values of it"
                .to_owned(),
        ),
    }
}

/// The transfer of keys and values to another process.
fn transfer(value: &str, _: &'static str) -> Became {
    match is_empty_object(value) {
        true => Noted,
        false => Refused("a server computes prompts and answers in one process".to_owned()),
    }
}

/// Settings of a platform.
fn additional(value: &str, _: &'static str) -> Became {
    match is_empty_object(value) {
        true => Noted,
        false => Refused("`pelton serve --help-all` lists the options of a server".to_owned()),
    }
}

/// The number of machines.
fn one_node(value: &str, _: &'static str) -> Became {
    if value == "1" { Noted } else { Refused(NODES.to_owned()) }
}

/// The number of this machine, or of its first replica.
fn first_node(value: &str, _: &'static str) -> Became {
    if value == "0" { Noted } else { Refused(NODES.to_owned()) }
}

/// The number of parts of a context.
fn one_part(value: &str, _: &'static str) -> Became {
    if value == "1" { Noted } else { Refused(EXPERTS.to_owned()) }
}

/// The class that computes.
fn own_worker(value: &str, _: &'static str) -> Became {
    if value == "auto" { Noted } else { Refused(PYTHON.to_owned()) }
}

/// The type of weights that are computed.
fn dtype(value: &str, _: &'static str) -> Became {
    match value {
        "auto" | "bfloat16" | "float16" | "half" => Noted,
        _ => Refused(
            "weights are computed in the types of the file; --quantize converts them".to_owned(),
        ),
    }
}

/// Events of cached prefixes.
fn events(value: &str, own: &'static str) -> Became {
    let Ok(object) = serde_json::from_str::<serde_json::Value>(value) else {
        return convert::expected("a JSON object");
    };
    if object["enable_kv_cache_events"] == false {
        return Words(Vec::new());
    }
    match object["endpoint"].as_str() {
        Some(endpoint) => Words(vec![format!("{own}={endpoint}")]),
        None => Words(vec![format!("{own}=tcp://*:5557")]),
    }
}

/// Defaults of sampling, an object.
fn generation(value: &str, _: &'static str) -> Became {
    let object = serde_json::from_str::<serde_json::Value>(value).ok();
    let Some(object) = object.as_ref().and_then(|object| object.as_object()) else {
        return convert::expected("a JSON object");
    };
    let names = [
        ("temperature", "--temperature"),
        ("top_p", "--top-p"),
        ("top_k", "--top-k"),
        ("min_p", "--min-p"),
        ("repetition_penalty", "--repetition-penalty"),
        ("presence_penalty", "--presence-penalty"),
        ("frequency_penalty", "--frequency-penalty"),
        ("max_new_tokens", "--tokens"),
    ];
    let mut words = Vec::new();
    for (key, value) in object {
        match names.iter().find(|(name, _)| name == key) {
            Some((_, own)) => words.push(format!("{own}={value}")),
            None => {
                return Refused(format!(
                    "{key} is no default: those of `pelton serve --help-all` are"
                ));
            }
        }
    }
    Words(words)
}

/// The pooling of embeddings, an object.
fn pooler(value: &str, own: &'static str) -> Became {
    let Ok(object) = serde_json::from_str::<serde_json::Value>(value) else {
        return convert::expected("a JSON object");
    };
    let kind = object["pooling_type"].as_str().or_else(|| object["seq_pooling_type"].as_str());
    match kind.map(str::to_ascii_lowercase).as_deref() {
        Some(kind @ ("mean" | "cls" | "last")) => Words(vec![format!("{own}={kind}")]),
        Some("all") => Words(vec![format!("{own}=none")]),
        _ => Refused("--pooling mean, cls, last or none".to_owned()),
    }
}

/// The order of requests.
fn policy(value: &str, _: &'static str) -> Became {
    match value {
        "fcfs" => Noted,
        _ => Refused("a file of --api-key-file gives a key a priority".to_owned()),
    }
}

/// The form of tool calls or of reasoning, which the chat template shows.
fn parser(_: &str, _: &'static str) -> Became {
    Noted
}

/// The role of answers.
fn role(value: &str, _: &'static str) -> Became {
    match value {
        "assistant" => Noted,
        _ => Refused("answers have the role assistant".to_owned()),
    }
}

/// Certificates of clients, for which nobody is asked.
fn no_certificates(value: &str, _: &'static str) -> Became {
    match value {
        "0" => Noted,
        _ => Refused("a proxy in front of Pelton asks clients for certificates".to_owned()),
    }
}
