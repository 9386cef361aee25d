//! llama-server's own options, for `pelton serve`.

use super::{
    convert, llama_common, llama_sampling,
    table::{
        Fate, Peer, Row,
        Takes::{Nothing, Switch},
        by, flag, is, noted, noted_flag, refused, refused_flag,
    },
};

const ITSELF: &str = "Pelton does this by itself";
const CACHE: &str = "prompts stay in the memory of --kv-memory";
const TOOLS: &str = "the server runs no tools: `pelton chat --mcp COMMAND` does";
const SEVERAL: &str = "`pelton serve A.gguf B.gguf` serves several models";
const PAGE: &str = "the page keeps its settings in the browser";

const fn model(names: &'static str, name: &'static str) -> Row {
    Row::new(names, Nothing, Fate::Names(name))
}

pub(super) const PEER: Peer = Peer {
    name: "llama-server",
    commands: &["serve"],
    tables: &[
        ROWS,
        llama_common::MODEL,
        llama_common::ROWS,
        llama_sampling::ROWS,
        llama_sampling::LENGTH,
        llama_common::CHAT,
        llama_common::SPECULATION,
    ],
};

const ROWS: &[Row] = &[
    Row::new("-rea --reasoning", Switch, Fate::By(convert::reasoning, "--chat-template-kwargs"))
        .env("LLAMA_ARG_REASONING"),
    by("--reasoning-effort", convert::reasoning_effort, "--chat-template-kwargs")
        .env("LLAMA_ARG_REASONING_EFFORT"),
    by("--reasoning-budget", convert::reasoning_budget, "--chat-template-kwargs")
        .env("LLAMA_ARG_THINK_BUDGET"),
    by("-a --alias", convert::aliases, "--alias").env("LLAMA_ARG_ALIAS"),
    noted("--tags", "tags are information for people").env("LLAMA_ARG_TAGS"),
    by("--host", convert::host, "--host").env("LLAMA_ARG_HOST"),
    is("--port", "--port").env("LLAMA_ARG_PORT"),
    refused_flag("--reuse-port", "--replicas N runs several copies behind one port")
        .env("LLAMA_ARG_REUSE_PORT"),
    by("-np --parallel", convert::parallel, "--parallel").env("LLAMA_ARG_N_PARALLEL"),
    by("--api-key", convert::keys, "--api-key").env("LLAMA_API_KEY"),
    is("--api-key-file", "--api-key-file").env("LLAMA_ARG_API_KEY_FILE"),
    noted_flag("-e --escape", "texts of requests are JSON"),
    is("--log-file", "--log-file").env("LLAMA_ARG_LOG_FILE"),
    noted_flag("--metrics", "/metrics is always there").env("LLAMA_ARG_ENDPOINT_METRICS"),
    noted_flag("--slots", "/slots is always there").env("LLAMA_ARG_ENDPOINT_SLOTS"),
    refused_flag("--no-slots", "/slots is always there: --api-key-file keeps others from it"),
    refused_flag("--props", "POST /props is not supported: options of this command set defaults")
        .env("LLAMA_ARG_ENDPOINT_PROPS"),
    noted_flag("--embedding --embeddings", "every model that can embeds texts")
        .env("LLAMA_ARG_EMBEDDINGS"),
    noted_flag("--rerank --reranking", "every model that can ranks documents")
        .env("LLAMA_ARG_RERANKING"),
    by("--pooling", convert::pooling, "--pooling").env("LLAMA_ARG_POOLING"),
    by("--embd-normalize", convert::norm, ""),
    noted("-to --timeout", "a client that reads and writes is kept").env("LLAMA_ARG_TIMEOUT"),
    noted("--threads-http", ITSELF).env("LLAMA_ARG_THREADS_HTTP"),
    noted("--sse-ping-interval", "streams have comments while they wait")
        .env("LLAMA_ARG_SSE_PING_INTERVAL"),
    by("--cors-origins", convert::origins, "--cors").env("LLAMA_ARG_CORS_ORIGINS"),
    noted("--cors-methods", "pages may send what the server answers").env("LLAMA_ARG_CORS_METHODS"),
    noted("--cors-headers", "pages may send what the server reads").env("LLAMA_ARG_CORS_HEADERS"),
    noted_flag("--cors-credentials --no-cors-credentials", "keys are headers, and no cookies")
        .env("LLAMA_ARG_CORS_CREDENTIALS"),
    noted_flag("-cb --cont-batching", ITSELF).env("LLAMA_ARG_CONT_BATCHING"),
    noted_flag("-nocb --no-cont-batching", "--parallel 1 runs one request at a time"),
    noted_flag("--cache-prompt --no-cache-prompt", CACHE).env("LLAMA_ARG_CACHE_PROMPT"),
    noted("--cache-reuse", CACHE).env("LLAMA_ARG_CACHE_REUSE"),
    noted_flag("--cache-idle-slots --no-cache-idle-slots", CACHE).env("LLAMA_ARG_CACHE_IDLE_SLOTS"),
    noted("-cms --checkpoint-min-step", ITSELF).env("LLAMA_ARG_CHECKPOINT_MIN_SPACING_NT"),
    noted_flag("-kvu --kv-unified -no-kvu --no-kv-unified", "all requests share the memory for keys and values")
        .env("LLAMA_ARG_KV_UNIFIED"),
    is("--kv-unified-per-slot", "--context").env("LLAMA_ARG_KV_UNIFIED_PER_SLOT"),
    noted("-sps --slot-prompt-similarity", "a request uses the longest cached part of its prompt"),
    refused("--slot-save-path", "prompts stay in memory, and no file keeps them")
        .env("LLAMA_ARG_SLOT_SAVE_PATH"),
    noted("-lcs --lookup-cache-static", "drafts are found in the text of the request"),
    noted("-lcd --lookup-cache-dynamic", "drafts are found in the text of the request"),
    noted_flag("--ui --webui", "the page is at /").env("LLAMA_ARG_UI"),
    flag("--no-ui --no-webui", "--no-page"),
    refused("--ui-config --webui-config", PAGE).env("LLAMA_ARG_UI_CONFIG"),
    refused("--ui-config-file --webui-config-file", PAGE).env("LLAMA_ARG_UI_CONFIG_FILE"),
    refused_flag("--ui-mcp-proxy --webui-mcp-proxy", TOOLS).env("LLAMA_ARG_UI_MCP_PROXY"),
    noted_flag("--no-ui-mcp-proxy --no-webui-mcp-proxy", "the server has no such proxy"),
    refused("--path", "a web server in front of Pelton serves files").env("LLAMA_ARG_STATIC_PATH"),
    refused("--api-prefix", "a proxy in front of Pelton adds a prefix")
        .env("LLAMA_ARG_API_PREFIX"),
    refused("--media-path", "clients send pictures as data: URLs"),
    refused("--tools", TOOLS).env("LLAMA_ARG_TOOLS"),
    refused("--tools-runtime", TOOLS).env("LLAMA_ARG_TOOLS_RUNTIME"),
    refused("--mcp-servers-config", TOOLS).env("LLAMA_ARG_MCP_SERVERS_CONFIG"),
    refused("--mcp-servers-json", TOOLS).env("LLAMA_ARG_MCP_SERVERS_JSON"),
    refused_flag("-ag --agent", TOOLS).env("LLAMA_ARG_AGENT"),
    noted_flag("-no-ag --no-agent", "the server runs no tools"),
    is("--ssl-key-file", "--tls-key").env("LLAMA_ARG_SSL_KEY_FILE"),
    is("--ssl-cert-file", "--tls-cert").env("LLAMA_ARG_SSL_CERT_FILE"),
    refused("--models-dir", SEVERAL).env("LLAMA_ARG_MODELS_DIR"),
    refused("--models-preset", "--config FILE has the options of a server; `pelton serve A.gguf B.gguf` serves several models")
        .env("LLAMA_ARG_MODELS_PRESET"),
    noted("--models-max", "--idle-timeout N unloads models that nobody uses")
        .env("LLAMA_ARG_MODELS_MAX"),
    flag("--models-autoload", "--lazy").env("LLAMA_ARG_MODELS_AUTOLOAD"),
    noted_flag("--no-models-autoload", "models are loaded at the start without --lazy"),
    by("--sleep-idle-seconds", convert::from_zero, "--idle-timeout"),
    noted_flag("--prefill-assistant", "a last message of the assistant is continued where the template can")
        .env("LLAMA_ARG_PREFILL_ASSISTANT"),
    refused_flag("--no-prefill-assistant", "a request says so: \"continue_final_message\": false"),
    refused_flag("--lora-init-without-apply", "a request has the scale of each adapter in its field lora"),
    refused_flag("--spm-infill", "the order of infill is that of the model's file"),
    model("--embd-gemma-default", "hf:ggml-org/embeddinggemma-300M-qat-q4_0-GGUF"),
    model("--fim-qwen-1.5b-default", "hf:ggml-org/Qwen2.5-Coder-1.5B-Q8_0-GGUF"),
    model("--fim-qwen-3b-default", "hf:ggml-org/Qwen2.5-Coder-3B-Q8_0-GGUF"),
    model("--fim-qwen-7b-default", "hf:ggml-org/Qwen2.5-Coder-7B-Q8_0-GGUF"),
    model("--fim-qwen-7b-spec", "hf:ggml-org/Qwen2.5-Coder-7B-Q8_0-GGUF"),
    model("--fim-qwen-14b-spec", "hf:ggml-org/Qwen2.5-Coder-14B-Q8_0-GGUF"),
    model("--fim-qwen-30b-default", "hf:ggml-org/Qwen3-Coder-30B-A3B-Instruct-Q8_0-GGUF"),
];
