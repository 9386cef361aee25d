//! The HTTP server of Pelton: the APIs of OpenAI, Anthropic, Ollama, llama.cpp and whisper.cpp.
//!
//! ```no_run
//! # async fn run() -> Result<(), pelton_server::Error> {
//! let server = pelton_server::Server::bind(pelton_server::Config::default()).await?;
//! server.run(std::future::pending()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Inside, imports go one way. First come `config`, `error`, `input` (bodies to fields),
//! `kv_events` (cached prefixes, for routers), `metrics`, `models` (the registry), `pulls`
//! (downloads) and `store` (responses to go on from). Then `generate` and `speech` (requests to
//! models), `wire` (bodies of responses), `app`, `http` (connections, keys, limits), `api` (the
//! handlers) and `server`.

mod api;
mod app;
mod config;
mod defaults;
mod error;
mod generate;
mod http;
mod input;
mod kv_events;
mod media;
mod metrics;
mod models;
mod pulls;
mod salts;
mod server;
mod speech;
mod store;
mod telemetry;
mod usage;
mod wire;

pub use config::{
    ApiKey, BuiltIn, Config, Downloads, KeyError, KvEvents, Limits, MetricNames, ModelConfig,
    TlsFiles,
};
pub use defaults::Defaults;
pub use http::Address;
pub use server::{Error, Progress, Server, serve_until_signal};
