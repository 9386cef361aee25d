//! Ollama's options and environment variables, for `run`, `chat`, `show`, `pull` and `serve`.

use super::{
    convert,
    table::{
        Fate, Peer, Row,
        Takes::{Switch, Value},
        by, noted, noted_flag, refused, refused_flag,
    },
};

/// Commands that Pelton has not, with the nearest thing.
pub(super) const COMMANDS: &[(&str, &str)] = &[
    ("ps", "`pelton serve` lists its models at /api/ps and /v1/models"),
    (
        "stop",
        "--idle-timeout N of `pelton serve` unloads models, as \"keep_alive\": 0 of a request does",
    ),
    (
        "create",
        "--system, --chat-template, --lora and the options of sampling are options of run, chat and serve",
    ),
    ("cp", "--alias NAME=MODEL of `pelton serve` gives a model a further name"),
    ("push", "Pelton uploads no models; `hf upload` does"),
    ("signin", "Pelton has no accounts: HF_TOKEN is a token of Hugging Face"),
    ("signout", "Pelton has no accounts: HF_TOKEN is a token of Hugging Face"),
    ("whisper", "`pelton transcribe MODEL FILE` writes the text of speech"),
    ("launch", "`pelton serve` answers programs that speak OpenAI's, Anthropic's or Ollama's API"),
    (
        "search",
        "https://huggingface.co/models lists models; `pelton pull OWNER/NAME` downloads one",
    ),
    ("generate", "`pelton run MODEL PROMPT` continues or answers a prompt"),
];

const TLS: &str = "names of models are always asked for by HTTPS";

const fn variable(name: &'static str, fate: Fate) -> Row {
    Row::new(name, Value, fate).env(name)
}

pub(super) const RUN: Peer =
    Peer { name: "ollama run", commands: &["run", "chat"], tables: &[RUN_ROWS] };

const RUN_ROWS: &[Row] = &[
    noted("--keepalive", "a model is loaded for one command; `pelton serve` keeps it"),
    noted_flag("--insecure", TLS),
    noted_flag("--nowordwrap", "a pipe gets the text as it is"),
    by("--format", form, "--json-schema"),
    Row::new("--think", Switch, Fate::By(think, "--think")),
    refused_flag("--hidethinking", "--think false leaves reasoning out"),
    refused("--dimensions", "`pelton embed MODEL TEXT --dimensions N` embeds a text"),
    refused_flag("--truncate", "`pelton embed` refuses a text that is longer than the context"),
    refused_flag("--experimental", "`pelton chat --mcp COMMAND` lets the model call tools"),
    variable("OLLAMA_CONTEXT_LENGTH", Fate::By(convert::positive, "--context")),
    variable("OLLAMA_KV_CACHE_TYPE", Fate::By(convert::kv, "--kv")),
    variable("OLLAMA_NOHISTORY", Fate::By(no_history, "--no-history")),
];

/// The form of an answer: `json` or a schema.
fn form(value: &str, own: &'static str) -> convert::Became {
    convert::Became::Words(match value {
        "" => Vec::new(),
        "json" => vec!["--json-object".to_owned()],
        schema => vec![format!("{own}={schema}")],
    })
}

/// Whether a model reasons, or how much.
fn think(value: &str, own: &'static str) -> convert::Became {
    match convert::truth(value) {
        Some(on) => convert::Became::Words(vec![format!("{own}={on}")]),
        None => convert::Became::Words(vec![format!("--reasoning-effort={value}")]),
    }
}

fn no_history(value: &str, own: &'static str) -> convert::Became {
    match own {
        "--no-history" => convert::if_true(value, own),
        _ => convert::Became::Noted,
    }
}

pub(super) const SHOW: Peer =
    Peer { name: "ollama show", commands: &["show"], tables: &[SHOW_ROWS] };

const SHOW_ROWS: &[Row] = &[
    refused_flag("--modelfile", "`pelton show MODEL` says where the model's file is"),
    refused_flag("--parameters", "`pelton run --help-all` lists the options of sampling"),
    refused_flag("--system", "--system TEXT of `pelton run` and `pelton chat` sets one"),
    noted_flag("-v --verbose", "`pelton inspect MODEL` shows all metadata and tensors"),
];

pub(super) const PULL: Peer =
    Peer { name: "ollama pull", commands: &["pull"], tables: &[&[noted_flag("--insecure", TLS)]] };

pub(super) const SERVE: Peer =
    Peer { name: "ollama serve", commands: &["serve"], tables: &[SERVE_ROWS] };

const ITSELF: &str = "Pelton does this by itself";
const NO_CLOUD: &str = "Pelton runs no model on other machines";

const SERVE_ROWS: &[Row] = &[
    variable("OLLAMA_HOST", Fate::By(convert::address, "--host")),
    variable("OLLAMA_KEEP_ALIVE", Fate::By(convert::duration, "--idle-timeout")),
    variable("OLLAMA_NUM_PARALLEL", Fate::By(convert::positive, "--parallel")),
    variable("OLLAMA_CONTEXT_LENGTH", Fate::By(convert::positive, "--context")),
    variable("OLLAMA_MAX_QUEUE", Fate::By(convert::positive, "--queue")),
    variable("OLLAMA_KV_CACHE_TYPE", Fate::By(convert::kv, "--kv")),
    variable("OLLAMA_ORIGINS", Fate::By(convert::origins, "--cors")),
    variable("OLLAMA_DEBUG_LOG_REQUESTS", Fate::By(convert::if_true, "--log-prompts")),
    variable("OLLAMA_MAX_LOADED_MODELS", Fate::Noted("--idle-timeout N unloads models")),
    variable("OLLAMA_FLASH_ATTENTION", Fate::Noted(ITSELF)),
    variable("OLLAMA_SCHED_SPREAD", Fate::Noted("--device gpu:0,gpu:1 splits a model")),
    variable("OLLAMA_GPU_OVERHEAD", Fate::By(convert::positive, "--fit-margin")),
    variable("OLLAMA_LOAD_TIMEOUT", Fate::Noted("a load has no limit of time")),
    variable("OLLAMA_LLM_LIBRARY", Fate::Noted("--device chooses where a model runs")),
    variable("OLLAMA_NOPRUNE", Fate::Noted("`pelton rm NAME` alone deletes a model")),
    variable("OLLAMA_NO_CLOUD", Fate::Noted(NO_CLOUD)),
    variable("OLLAMA_REMOTES", Fate::Noted(NO_CLOUD)),
    variable("OLLAMA_AUTH", Fate::Noted(NO_CLOUD)),
    variable("OLLAMA_DEBUG", Fate::Noted("the environment variable RUST_LOG chooses log lines")),
    variable("OLLAMA_VULKAN", Fate::Noted("--device chooses where a model runs")),
    variable("OLLAMA_IGPU_ENABLE", Fate::Noted("--device chooses where a model runs")),
    variable("OLLAMA_GO_TEMPLATE", Fate::Noted("chat templates are rendered as Jinja")),
    variable("OLLAMA_MAX_TRANSFER_STREAMS", Fate::Noted("a download has several connections")),
];
