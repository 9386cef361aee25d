//! `pelton serve`: models over HTTP.

mod file;

use std::{
    env,
    ffi::OsString,
    fs, io, mem,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use clap::{CommandFactory, FromArgMatches, Parser};
use pelton::{Device, LoadOptions};
use pelton_server::{
    ApiKey, Config, Downloads, KvEvents, MetricNames, ModelConfig, Progress, TlsFiles,
};

use crate::{
    defaults::DefaultArgs,
    foreign_flags, hub,
    load_flags::{EmbeddingFlags, RequestFlags},
    logging,
    model::LoadArgs,
    model_budget::ModelBudget,
    names::{BUILT_IN, BUILT_IN_SPEECH, BUILT_IN_VISION, demonstration},
    output::{self, Hint, note},
    speculate::SpeculateArgs,
    templates,
};

/// The log lines without `RUST_LOG`.
const LOG: &str = "warn,pelton_server=info,pelton::access=info";

#[derive(clap::Args)]
#[command(
    args_override_self = true,
    after_help = "Requests name a model by its file name without .gguf, or by an alias; a single model \
                  answers any name.\nKeys are read from a file with a line SECRET, NAME SECRET or NAME \
                  SECRET priority=N each, or from the\nenvironment variable PELTON_API_KEY. A file for \
                  --config has the long options as keys, such as\nport = 8080, and models = \
                  [\"a.gguf\"]; the command line overrides it.\n\
                  Ctrl-C lets running requests end; a second one ends the process at once."
)]
pub(crate) struct Args {
    /// Models: files, directories, names such as qwen3:0.6b, built-in, built-in-vision or
    /// built-in-speech; without any the built-in model
    #[arg(value_name = "MODEL")]
    models: Vec<String>,
    /// Listen on this address, or on a Unix socket: unix:PATH
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    host: String,
    /// Listen on this port; 0 for any that is free
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    port: u16,
    /// Speak HTTPS with the certificate in this PEM file, followed by those between it and its
    /// authority's. It is read again when it changes
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM without a passphrase
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Give the first model a further name, or the named one, which may be one that is not listed
    /// otherwise. May be given several times
    #[arg(long, value_name = "NAME[=MODEL]")]
    alias: Vec<String>,
    /// Read API keys from a file; every request must have one of them
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,
    /// Require this API key of every request; may be given several times. Other users of this
    /// machine see it in the list of processes: --api-key-file hides it
    #[arg(long, value_name = "KEY")]
    api_key: Vec<String>,
    /// A file of API keys that alone may load and unload models
    #[arg(long, value_name = "FILE")]
    admin_key_file: Option<PathBuf>,
    /// Listen on a public address without API keys
    #[arg(long)]
    allow_public: bool,
    /// Accept requests whose Host or Origin is this name, such as a reverse proxy's; may be given
    /// several times. Addresses, localhost and names outside of public DNS need not be named
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// Fetch pictures that clients name by their address from these hosts, over HTTPS; commas
    /// separate names. Without it pictures come as data: URLs alone
    #[arg(long, value_name = "HOSTS", value_delimiter = ',')]
    media_hosts: Vec<String>,
    /// Leave out the page to chat in
    #[arg(long)]
    no_page: bool,
    /// Answer only requests that name a model by one of its names; without this a server with one
    /// model answers any name
    #[arg(long)]
    strict_models: bool,
    #[command(flatten)]
    requests: RequestFlags,
    /// Run N whole copies of each model of text, one on each GPU: those of a list such as --device
    /// gpu:0,gpu:1, or the first N. On the CPU they share its threads. A request goes to the copy
    /// that probably has the longest part of its prompt cached, unless that is much busier.
    /// --parallel, --queue and --kv-memory are for each copy
    #[arg(long, value_name = "N", default_value_t = 1)]
    replicas: usize,
    #[command(flatten)]
    pooling: EmbeddingFlags,
    /// Chat template for all models: chatml, llama3, gemma, mistral, phi or a Jinja file
    #[arg(long, value_name = "NAME")]
    chat_template: Option<String>,
    /// Load a model with its first request instead of at the start
    #[arg(long)]
    lazy: bool,
    /// Unload a model after this time without requests
    #[arg(long, value_name = "SECONDS")]
    idle_timeout: Option<u64>,
    /// End a generation with an error after this time
    #[arg(long, value_name = "SECONDS")]
    request_timeout: Option<u64>,
    /// Give running requests this time to end after Ctrl-C
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    shutdown_timeout: u64,
    /// Accept at most N bytes in a request's body
    #[arg(long, value_name = "N", default_value_t = 32 << 20)]
    max_body: usize,
    /// Accept at most N bytes in an audio file
    #[arg(long, value_name = "N", default_value_t = 256 << 20)]
    max_audio: usize,
    /// Accept at most N seconds of audio; 0 for any length
    #[arg(long, value_name = "N", default_value_t = 4 * 3600)]
    max_audio_seconds: u64,
    /// Answer at most N requests a minute of each API key
    #[arg(long, value_name = "N")]
    requests_per_minute: Option<u32>,
    /// Compute at most N tokens a minute for each API key, of prompts and texts
    #[arg(long, value_name = "N")]
    tokens_per_minute: Option<u32>,
    /// Run at most N requests of each API key at the same time
    #[arg(long, value_name = "N")]
    concurrent: Option<u32>,
    /// Let requests of different API keys share cached prefixes, whose use can be seen in times
    #[arg(long)]
    share_prefixes: bool,
    /// Let web pages of this origin send requests, or * for all; may be given several times
    #[arg(long, value_name = "ORIGIN")]
    cors: Vec<String>,
    /// Name the metrics at /metrics as Pelton or as vLLM does
    #[arg(long, value_enum, value_name = "NAMES", default_value = "pelton")]
    metrics_names: Names,
    /// Publish which prefixes are cached, for routers, over ZeroMQ in the form of vLLM's events.
    /// Anyone who connects to this address reads the tokens of prompts
    #[arg(long, value_name = "HOST:PORT")]
    kv_events: Option<String>,
    /// Send past events again to those who ask for them on this address
    #[arg(long, value_name = "HOST:PORT", requires = "kv_events")]
    kv_events_replay: Option<String>,
    /// The name of this server in the topics of events, as the router knows it; its
    /// address without this
    #[arg(long, value_name = "NAME", requires = "kv_events")]
    kv_events_pod: Option<String>,
    /// Write log lines in this format
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    log_format: logging::Format,
    /// Append log lines to this file too, without colours
    #[arg(long, value_name = "FILE")]
    log_file: Option<PathBuf>,
    /// Send a span of each request to a collector of OpenTelemetry, by OTLP over HTTP. The default
    /// is the environment variable OTEL_EXPORTER_OTLP_ENDPOINT
    #[arg(long, value_name = "http://HOST:PORT")]
    otlp: Option<String>,
    /// Write prompts into the log lines of level debug
    #[arg(long)]
    log_prompts: bool,
    /// Read defaults for these options from a TOML file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    defaults: DefaultArgs,
    #[command(flatten)]
    speculate: SpeculateArgs,
    #[command(flatten)]
    load: LoadArgs,
}

/// [`MetricNames`], for the command line.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Names {
    Pelton,
    Vllm,
}

/// The arguments on their own, to be parsed with those of a file.
#[derive(Parser)]
#[command(name = "pelton serve")]
struct Alone {
    #[command(flatten)]
    hub: hub::HubArgs,
    #[command(flatten)]
    args: Args,
}

/// The arguments, with those of a configuration file before those of the command line.
fn with_file(args: Args, root: &clap::Command) -> Result<Args> {
    let Some(file) = &args.config else { return Ok(args) };
    let command = Alone::command();
    let mut words: Vec<OsString> = vec!["pelton serve".into()];
    // variables come before the file, which names the models
    let alone = vec!["pelton".into(), "serve".into()];
    let variables = foreign_flags::rewritten(alone, root, &|name| env::var_os(name)).words;
    let is_option = |word: &OsString| word.to_string_lossy().starts_with("--");
    words.extend(variables.into_iter().filter(is_option));
    words.extend(file::words(file, &command)?);
    let own = foreign_flags::rewritten(env::args_os().collect(), root, &|_| None).words;
    words.extend(own.into_iter().skip_while(|word| word != "serve").skip(1));
    let alone = Alone::from_arg_matches(&command.get_matches_from(words))?;
    hub::configure(&alone.hub);
    Ok(alone.args)
}

pub(crate) fn run(args: Args, root: &clap::Command) -> Result<()> {
    let given = (args.log_format, args.log_file.clone());
    let args = with_file(args, root);
    let (format, file) = match &args {
        Ok(args) => (args.log_format, args.log_file.as_deref()),
        Err(_) => (given.0, given.1.as_deref()),
    };
    logging::start_serving(LOG, format, file)?;
    let args = args?;
    let config = config(&args)?;
    let names: Vec<&str> = config.models.iter().map(|model| model.name.as_str()).collect();
    let (names, lazy) = (names.join(", "), config.lazy);
    let is_unix = config.host.starts_with("unix:");
    let built_in =
        [(ModelConfig::built_in(), BUILT_IN), (ModelConfig::built_in_vision(), BUILT_IN_VISION)];
    for (model, word) in built_in {
        if let Some(what) = demonstration(word)
            && config.models.iter().any(|other| other.is_same_model(&model))
        {
            note!("{what}");
        }
    }
    pelton_server::serve_until_signal(config, move |progress| match progress {
        Progress::Loading(_) if lazy => {}
        Progress::Loading(address) => {
            note!("loading {names}; {address} answers 503 until then");
        }
        Progress::Ready(address) => note!("listening on {address}"),
        _ => {}
    })
    .map_err(|error| match &error {
        pelton_server::Error::Listen { source, .. } => {
            let hint = match source.kind() {
                _ if is_unix => "--host unix:PATH names another path",
                io::ErrorKind::AddrInUse => {
                    "--port N listens on another port, --port 0 on any that is free"
                }
                _ => "--host HOST and --port N choose the address",
            };
            Hint { error: error.into(), hint: hint.to_owned() }.into()
        }
        _ => error.into(),
    })
}

/// The model that a word names. One that a hub names keeps that name, and has its file's as an
/// alias.
fn source(text: &str, device: Device) -> Result<ModelConfig> {
    match text {
        BUILT_IN => return Ok(ModelConfig::built_in()),
        BUILT_IN_SPEECH => return Ok(ModelConfig::built_in_speech()),
        BUILT_IN_VISION => return Ok(ModelConfig::built_in_vision()),
        _ => {}
    }
    let path = hub::local(text, device)?;
    let mut model = ModelConfig::file(&path);
    if path != text {
        let of_file = mem::replace(&mut model.name, hub::reference(text)?.to_string());
        // the folder of a snapshot is named by a commit
        if path.ends_with(".gguf") || path.ends_with(".bin") {
            model.aliases.push(of_file);
        }
    }
    Ok(model)
}

/// The models, each once, with their names.
fn models(args: &Args) -> Result<Vec<ModelConfig>> {
    let mut models: Vec<ModelConfig> = Vec::new();
    for text in &args.models {
        let model = source(text, args.load.device)?;
        if !models.iter().any(|other| other.is_same_model(&model)) {
            models.push(model);
        }
    }
    let mut of_first = Vec::new();
    for alias in &args.alias {
        let Some((name, text)) = alias.split_once('=') else {
            of_first.push(alias.clone());
            continue;
        };
        ensure!(!name.is_empty(), "--alias is {alias}, expected NAME=MODEL");
        if let Some(known) = models.iter_mut().find(|other| other.name == text) {
            known.aliases.push(name.to_owned());
            continue;
        }
        let mut model = source(text, args.load.device)?;
        match models.iter_mut().find(|other| other.is_same_model(&model)) {
            Some(known) => known.aliases.push(name.to_owned()),
            None => {
                model.aliases.push(name.to_owned());
                models.push(model);
            }
        }
    }
    if models.is_empty() {
        models.push(ModelConfig::built_in());
    }
    if let Some(first) = models.first_mut() {
        ensure!(of_first.iter().all(|name| !name.is_empty()), "--alias is empty, expected NAME");
        first.aliases.extend(of_first);
    }
    if let Some(name) = &args.chat_template {
        let source = templates::named(name);
        if source.is_none() && !Path::new(name).exists() {
            templates::source(name)?;
        }
        for model in &mut models {
            // a file is read with its model, so that a slow one does not keep the
            // server from answering
            match source {
                Some(source) => model.template_source = Some(source.to_owned()),
                None => model.template = Some(name.into()),
            }
        }
    }
    Ok(models)
}

/// The keys of a file; none without one.
fn key_file(file: Option<&Path>) -> Result<Vec<ApiKey>> {
    let Some(file) = file else { return Ok(Vec::new()) };
    let text = fs::read_to_string(file)
        .with_context(|| format!("the API keys in {} could not be read", file.display()))?;
    let keys =
        ApiKey::parse(&text).with_context(|| format!("the API keys in {}", file.display()))?;
    if keys.is_empty() {
        bail!("{} has no API key, expected a line with one", file.display());
    }
    Ok(keys)
}

/// The keys of the file, of the flags and of the environment. The latter two are
/// secrets as they stand.
fn keys(args: &Args) -> Result<Vec<ApiKey>> {
    let mut keys = key_file(args.api_key_file.as_deref())?;
    let variable = match env::var("PELTON_API_KEY") {
        Ok(secret) => Some(secret),
        Err(env::VarError::NotPresent) => None,
        Err(error) => return Err(error).context("the environment variable PELTON_API_KEY"),
    };
    let given = args.api_key.iter().map(|secret| ("--api-key", secret));
    let given = given.chain(variable.iter().map(|secret| ("PELTON_API_KEY", secret)));
    for (place, secret) in given {
        ensure!(
            !secret.trim().is_empty(),
            "{place} is empty, expected a key, or none to serve without keys"
        );
        ensure!(
            secret.bytes().all(|byte| byte.is_ascii_graphic()),
            "{place} has a character that no Authorization header carries, expected ASCII letters, \
             digits and punctuation"
        );
        let name = format!("key-{}", keys.len() + 1);
        keys.push(ApiKey { name, secret: secret.clone(), priority: 0 });
    }
    Ok(keys)
}

fn config(args: &Args) -> Result<Config> {
    let load = LoadOptions::default().fit_context().max_concurrent(4).queue_requests(256);
    let load = args.speculate.apply(args.pooling.apply(args.requests.apply(load)?)?)?;
    let mut config = Config::default();
    config.host.clone_from(&args.host);
    config.port = args.port;
    config.tls = args
        .tls_cert
        .clone()
        .zip(args.tls_key.clone())
        .map(|(certificate, key)| TlsFiles { certificate, key });
    config.models = models(args)?;
    config.load = hub::localized(args.load.options(load)?, args.load.device)?;
    config.in_file_order = args.load.no_repack;
    config.device = args.load.device;
    config.replicas = args.replicas;
    config.threads = args.load.threads();
    config.keys = keys(args)?;
    config.admin_keys = key_file(args.admin_key_file.as_deref())?;
    config.allow_public = args.allow_public;
    config.share_prefixes = args.share_prefixes;
    config.origins.clone_from(&args.cors);
    config.hosts.clone_from(&args.allow_host);
    config.media_hosts.clone_from(&args.media_hosts);
    config.strict_models = args.strict_models;
    config.page = !args.no_page;
    config.defaults = args.defaults.defaults()?;
    config.idle_timeout = args.idle_timeout.map(Duration::from_secs);
    config.lazy = args.lazy;
    config.log_prompts = args.log_prompts;
    let collector = || env::var("OTEL_EXPORTER_OTLP_ENDPOINT").ok().filter(|url| !url.is_empty());
    config.otlp = args.otlp.clone().or_else(collector);
    config.metrics = match args.metrics_names {
        Names::Pelton => MetricNames::Pelton,
        Names::Vllm => MetricNames::Vllm,
    };
    config.downloads = downloads();
    config.kv_events = args.kv_events.as_deref().map(|address| {
        KvEvents::new(address, args.kv_events_replay.as_deref(), args.kv_events_pod.clone())
    });
    let limits = &mut config.limits;
    limits.body_bytes = args.max_body;
    limits.audio_bytes = args.max_audio;
    limits.audio_seconds = Some(args.max_audio_seconds).filter(|&seconds| seconds > 0);
    limits.request_time = args.request_timeout.map(Duration::from_secs);
    limits.shutdown_time = Duration::from_secs(args.shutdown_timeout);
    limits.requests_per_minute = args.requests_per_minute;
    limits.tokens_per_minute = args.tokens_per_minute;
    limits.concurrent = args.concurrent;
    Ok(config)
}

/// Downloads for requests. A server whose user has no folder for them, as in small
/// containers, has none.
fn downloads() -> Option<Downloads> {
    let budget = |device| Some(ModelBudget::of(device)?.bytes());
    match hub::settings() {
        Ok(settings) => Some(Downloads { settings, budget }),
        Err(error) => {
            note!("/api/pull is off: {}", output::sentence(&error));
            None
        }
    }
}

/// The configuration of a server with these flags.
#[cfg(test)]
pub(crate) fn config_of(flags: &[String]) -> Result<Config> {
    let words = std::iter::once("pelton serve").chain(flags.iter().map(String::as_str));
    config(&Alone::try_parse_from(words)?.args)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Args {
        let words = ["pelton serve"].iter().chain(words).copied();
        Alone::try_parse_from(words).unwrap_or_else(|error| panic!("{error}")).args
    }

    #[test]
    fn a_file_gives_defaults() {
        let file = "port = 9000\nlazy = true\nallow-public = false\nalias = [\"x=built-in\"]\n\
                    models = [\"built-in\", \"/m/a.gguf\", \"built-in-speech\"]\n";
        let words = file::words_of(file).unwrap();
        let words = words.iter().flat_map(|(_, words)| words).map(String::as_str);
        let args = parse(&words.chain(["--port=9001"]).collect::<Vec<_>>());
        assert_eq!((args.port, args.lazy, args.allow_public), (9001, true, false));
        let models = models(&args).unwrap();
        assert_eq!(models.len(), 3);
        assert!(
            models[2].built_in == pelton_server::BuiltIn::Speech
                && models[2].name == "built-in-speech"
        );
        assert_eq!(
            (models[0].name.as_str(), &models[0].aliases[..]),
            ("built-in", &["x".into()][..])
        );
        assert_eq!(models[1].name, "a");
        assert!(file::words_of("a = { b = 1 }").is_err());
        assert!(file::words_of("port = ").is_err());
    }

    #[test]
    fn aliases_of_models() {
        let models =
            models(&parse(&["/m/a.gguf", "--alias", "b=a", "--alias", "c=/m/c.gguf"])).unwrap();
        assert_eq!(models[0].aliases, ["b"]);
        assert_eq!((models[1].name.as_str(), &models[1].aliases[..]), ("c", &["c".into()][..]));
    }
}
