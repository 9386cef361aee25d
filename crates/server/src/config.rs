//! The configuration of a server.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use pelton::{Device, LoadOptions};

use crate::defaults::Defaults;

/// A model within the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuiltIn {
    /// It tells stories.
    Text,
    /// It recognizes synthetic speech.
    Speech,
    /// It answers questions about drawn pictures.
    Vision,
}

/// A model that the server offers.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// The name that requests give.
    pub name: String,
    /// Further names.
    pub aliases: Vec<String>,
    /// A model file or directory; `None` for a built-in model.
    pub path: Option<PathBuf>,
    /// The built-in model that it is where there is no path. Files show what they are.
    pub built_in: BuiltIn,
    /// A Jinja file instead of the model's chat template.
    pub template: Option<PathBuf>,
    /// The source of a Jinja template in place of such a file.
    pub template_source: Option<String>,
}

impl ModelConfig {
    /// The built-in model, under the name `built-in`.
    pub fn built_in() -> Self {
        Self {
            name: "built-in".into(),
            aliases: Vec::new(),
            path: None,
            built_in: BuiltIn::Text,
            template: None,
            template_source: None,
        }
    }

    /// The built-in model that recognizes speech, under the name `built-in-speech`.
    pub fn built_in_speech() -> Self {
        Self { name: "built-in-speech".into(), built_in: BuiltIn::Speech, ..Self::built_in() }
    }

    /// The built-in model that sees, under the name `built-in-vision`.
    pub fn built_in_vision() -> Self {
        Self { name: "built-in-vision".into(), built_in: BuiltIn::Vision, ..Self::built_in() }
    }

    /// Whether two of them are the same model.
    pub fn is_same_model(&self, other: &Self) -> bool {
        (&self.path, self.built_in) == (&other.path, other.built_in)
    }

    /// A model file or directory, under its name without the extension.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let name = name_of(&path);
        Self { name, path: Some(path), ..Self::built_in() }
    }
}

/// The name of a file without `.gguf` or `.bin`, or that of a folder. A folder of the cache of the
/// Hugging Face hub (`models--OWNER--NAME/snapshots/COMMIT`) has the repository's.
fn name_of(path: &Path) -> String {
    let own = |path: &Path| Some(path.file_name()?.to_string_lossy().into_owned());
    if path.extension().is_some_and(|extension| extension == "gguf" || extension == "bin")
        && let Some(stem) = path.file_stem()
    {
        return stem.to_string_lossy().into_owned();
    }
    // `.` and `..` have the name of their folder
    let real = match path.file_name() {
        Some(_) => std::path::absolute(path),
        None => path.canonicalize(),
    };
    let real = real.unwrap_or_else(|_| path.to_owned());
    let parent =
        real.parent().filter(|parent| parent.file_name().is_some_and(|n| n == "snapshots"));
    let repository = parent.and_then(Path::parent).and_then(own);
    let repository = repository.as_deref().and_then(|name| name.strip_prefix("models--"));
    match repository {
        Some(name) => name.rsplit_once("--").map_or(name, |(_, name)| name).to_owned(),
        None => own(&real).unwrap_or_else(|| path.to_string_lossy().into_owned()),
    }
}

/// The name of an adapter in requests: that of its file without the ending.
pub(crate) fn lora_name(path: &Path) -> String {
    path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// A secret that requests carry, and what it allows.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// The name in logs and metrics.
    pub name: String,
    /// The secret.
    pub secret: String,
    /// The priority of its requests: those with a higher one start first.
    pub priority: i32,
}

impl std::fmt::Debug for ApiKey {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiKey").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ApiKey {
    /// The keys of a file's text: a line `SECRET`, `NAME SECRET` or `NAME SECRET priority=N` each;
    /// `#` begins a comment.
    ///
    /// # Errors
    ///
    /// [`KeyError`] with the number of a line of another form.
    pub fn parse(text: &str) -> Result<Vec<Self>, KeyError> {
        let lines = text.lines().map(str::trim).zip(1..);
        let lines = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
        lines.map(|(line, number)| Self::of_line(line, number)).collect()
    }

    fn of_line(line: &str, number: usize) -> Result<Self, KeyError> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let fail = || KeyError { line: number };
        let key = |name: String, secret: &str, priority| {
            Ok(Self { name, secret: secret.to_owned(), priority })
        };
        match words.as_slice() {
            [secret] => key(format!("key-{number}"), secret, 0),
            [name, secret] => key((*name).to_owned(), secret, 0),
            [name, secret, rest @ ..] => {
                let [priority] = rest else { return Err(fail()) };
                let priority = priority.strip_prefix("priority=").and_then(|n| n.parse().ok());
                key((*name).to_owned(), secret, priority.ok_or_else(fail)?)
            }
            [] => Err(fail()),
        }
    }
}

/// A line of API keys is of another form. The text of the line, which may be a secret, is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} is of another form, expected SECRET, NAME SECRET or NAME SECRET priority=N")]
pub struct KeyError {
    /// The number of the line, from 1.
    pub line: usize,
}

/// Which names the metrics have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetricNames {
    /// `pelton_…`.
    #[default]
    Pelton,
    /// `vllm:…`, for dashboards that exist.
    Vllm,
}

/// Bounds of connections and requests.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Limits {
    /// The most bytes of a body.
    pub body_bytes: usize,
    /// Memory of the bodies above 64 KiB of all requests, parsed, in bytes; at least that of two of
    /// the largest.
    pub body_memory: usize,
    /// The most bytes of an audio file.
    pub audio_bytes: usize,
    /// The most seconds of audio in a request; `None` for any length.
    pub audio_seconds: Option<u64>,
    /// Memory of the audio files of all requests in bytes; at least that of two of the largest.
    pub audio_memory: usize,
    /// Time for the head of a request.
    pub header_time: Duration,
    /// Time for the body of a request, or for each MiB of a form with a file.
    pub body_time: Duration,
    /// Time in which a client must read something of a response that waits for it.
    pub write_time: Duration,
    /// Time of a generation, from its submission to its end; `None` for any.
    pub request_time: Option<Duration>,
    /// The most connections at the same time.
    pub connections: usize,
    /// Requests a minute of one key (or of all clients without keys); `None` for any number.
    pub requests_per_minute: Option<u32>,
    /// Tokens a minute, of prompts and texts, of one key; `None` for any number.
    pub tokens_per_minute: Option<u32>,
    /// Requests of one key at the same time; `None` for any number.
    pub concurrent: Option<u32>,
    /// The most texts, prompts or documents of one request.
    pub batch: usize,
    /// Time between two comments in a stream that has nothing else.
    pub keep_alive: Duration,
    /// Time for running requests after the first signal to end.
    pub shutdown_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 32 << 20,
            body_memory: 512 << 20,
            audio_bytes: 256 << 20,
            audio_seconds: Some(4 * 3600),
            audio_memory: 1 << 30,
            header_time: Duration::from_secs(30),
            body_time: Duration::from_secs(60),
            write_time: Duration::from_secs(60),
            request_time: None,
            connections: 4096,
            requests_per_minute: None,
            tokens_per_minute: None,
            concurrent: None,
            batch: 2048,
            keep_alive: Duration::from_secs(10),
            shutdown_time: Duration::from_secs(30),
        }
    }
}

/// The configuration of a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The address to listen on: a host name, an IP address, or `unix:PATH` for a Unix socket.
    pub host: String,
    /// The port; 0 for any that is free. A Unix socket has none.
    pub port: u16,
    /// The certificate with which the server speaks HTTPS; `None` for HTTP.
    pub tls: Option<TlsFiles>,
    /// The models.
    pub models: Vec<ModelConfig>,
    /// How each model is loaded.
    pub load: LoadOptions,
    /// Where the models run.
    pub device: Device,
    /// Whole copies of each model of text: one for each GPU of the device, as [`Device::replicas`]
    /// says, or several that share the threads of the CPU.
    pub replicas: usize,
    /// Threads on the CPU.
    pub threads: usize,
    /// Whether weights stay in the order of their file, as [`pelton::EngineBuilder::repack`] has it
    /// without it.
    pub in_file_order: bool,
    /// The keys, one of which a request must have; none for a server without keys.
    pub keys: Vec<ApiKey>,
    /// Further keys, which alone may load and unload models if there are any. Without them every
    /// request that is answered may.
    pub admin_keys: Vec<ApiKey>,
    /// Whether a server without keys may listen on a public address.
    pub allow_public: bool,
    /// Whether requests of different keys share cached prefixes: the time of an answer then tells
    /// whether somebody else has sent the same text.
    pub share_prefixes: bool,
    /// Origins whose pages may send requests: `https://example.com`, or `*` for all.
    pub origins: Vec<String>,
    /// Further names of the server in the `Host` header and in the origin of its own page, such as
    /// that of a proxy. Addresses, `localhost` and names outside of public DNS need not be here.
    pub hosts: Vec<String>,
    /// Hosts from which pictures are fetched that clients name by their address; none at first.
    pub media_hosts: Vec<String>,
    /// Bounds of connections and requests.
    pub limits: Limits,
    /// Options of requests that do not set them.
    pub defaults: Defaults,
    /// Whether there is a page to chat in at `/`.
    pub page: bool,
    /// Time without requests after which a model is unloaded; `None` for never.
    pub idle_timeout: Option<Duration>,
    /// Whether requests must name a model by one of its names; otherwise a server with one model
    /// answers any name.
    pub strict_models: bool,
    /// Whether models are loaded by their first request instead of at the start.
    pub lazy: bool,
    /// The names of the metrics.
    pub metrics: MetricNames,
    /// Whether prompts and texts are logged, at level debug.
    pub log_prompts: bool,
    /// A collector of OpenTelemetry to which a span of each request is sent: `http://HOST:PORT`.
    pub otlp: Option<String>,
    /// How `/api/pull` downloads models; `None` for a server that downloads none.
    pub downloads: Option<Downloads>,
    /// Where changes of cached prefixes are published; `None` for a server that publishes none.
    pub kv_events: Option<KvEvents>,
}

/// The files of a certificate, in PEM. They are read again when they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, and those between it and one that clients know.
    pub certificate: PathBuf,
    /// The private key of the first certificate.
    pub key: PathBuf,
}

/// Where changes of cached prefixes are published, for routers that send a prompt to where its
/// prefix is. They have the tokens of prompts, and anyone who connects can read them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KvEvents {
    /// The address of the socket that publishes: `HOST:PORT`.
    pub address: String,
    /// The address of the socket that sends past messages again.
    pub replay: Option<String>,
    /// The name of this server in topics; `None` for its address.
    pub pod: Option<String>,
}

impl KvEvents {
    /// Addresses as `HOST:PORT`, or as vLLM has them: `tcp://HOST:PORT`, with `*` for all
    /// interfaces.
    pub fn new(address: &str, replay: Option<&str>, pod: Option<String>) -> Self {
        let plain = |address: &str| {
            let address = address.strip_prefix("tcp://").unwrap_or(address);
            match address.strip_prefix("*:") {
                Some(port) => format!("0.0.0.0:{port}"),
                None => address.to_owned(),
            }
        };
        Self { address: plain(address), replay: replay.map(plain), pod }
    }

    /// The addresses.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.address.as_str()).chain(self.replay.as_deref())
    }
}

/// Downloads that requests ask for.
#[derive(Clone, Debug)]
pub struct Downloads {
    /// The hub and the cache.
    pub settings: pelton_hub::Settings,
    /// Bytes of memory for a model on a device, if they are known. They decide where a name leaves
    /// the quantization open.
    pub budget: fn(Device) -> Option<u64>,
}

impl Config {
    /// The path of the Unix socket to listen on, if it is one.
    pub(crate) fn unix_path(&self) -> Option<&Path> {
        self.host.strip_prefix("unix:").map(Path::new)
    }

    /// All keys, by the numbers that the server gives them.
    pub(crate) fn all_keys(&self) -> impl Iterator<Item = &ApiKey> {
        self.keys.iter().chain(&self.admin_keys)
    }

    /// Whether requests with a key of this number, or without one, may load and unload models.
    pub(crate) fn may_administer(&self, key: Option<usize>) -> bool {
        self.admin_keys.is_empty() || key.is_some_and(|key| key >= self.keys.len())
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 8080,
            tls: None,
            models: Vec::new(),
            load: LoadOptions::default().max_concurrent(4),
            device: Device::default(),
            replicas: 1,
            threads: pelton::default_threads(),
            in_file_order: false,
            strict_models: false,
            hosts: Vec::new(),
            media_hosts: Vec::new(),
            keys: Vec::new(),
            admin_keys: Vec::new(),
            allow_public: false,
            share_prefixes: false,
            origins: Vec::new(),
            limits: Limits::default(),
            defaults: Defaults::default(),
            page: true,
            idle_timeout: None,
            lazy: false,
            metrics: MetricNames::default(),
            log_prompts: false,
            otlp: None,
            downloads: None,
            kv_events: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_file() {
        let text = "# ours\nalice  s3cret\n\nplain\nbatch s5cret priority=-1\n";
        let keys = ApiKey::parse(text).unwrap();
        let all: Vec<_> =
            keys.iter().map(|k| (k.name.as_str(), k.secret.as_str(), k.priority)).collect();
        let expected = [("alice", "s3cret", 0), ("key-4", "plain", 0), ("batch", "s5cret", -1)];
        assert_eq!(all, expected);
        for wrong in ["a s3cret priority=high", "a s3cret 7", "a s3cret priority=1 more"] {
            let error = ApiKey::parse(wrong).unwrap_err().to_string();
            assert!(error.contains("line 1") && !error.contains("s3cret"), "{error}");
        }
        assert!(!format!("{keys:?}").contains("s3cret"));
    }

    #[test]
    fn names_of_folders() {
        let snapshot = "/hub/models--Qwen--Qwen3-0.6B/snapshots/c1899de";
        assert_eq!(ModelConfig::file(snapshot).name, "Qwen3-0.6B");
        assert_eq!(ModelConfig::file(format!("{snapshot}/a.gguf")).name, "a");
        assert_eq!(ModelConfig::file("/m/qwen").name, "qwen");
        // a test runs in the folder of its crate
        assert_eq!(ModelConfig::file(".").name, "server");
        assert_eq!(ModelConfig::file("src/..").name, "server");
    }

    #[test]
    fn names_of_files() {
        assert_eq!(ModelConfig::file("/m/qwen.Q4_K.gguf").name, "qwen.Q4_K");
        assert_eq!(ModelConfig::file("/m/Llama-3.2/").name, "Llama-3.2");
        assert_eq!(ModelConfig::file("/m/ggml-base.en.bin").name, "ggml-base.en");
    }
}
