//! A server: bound to an address, run until it is stopped.

use std::{
    future::Future,
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::available_parallelism,
    time::Duration,
};

use pelton::Engine;
use tokio::net::TcpListener;

use crate::{
    api::router,
    app::App,
    config::{Config, ModelConfig},
    http::{is_local, serve},
    metrics::Metrics,
    models::Registry,
    telemetry::{Collector, Telemetry},
};

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option is not as it must be.
    #[error("{0}")]
    Config(String),
    /// The address could not be listened on.
    #[error("{address} could not be listened on: {source}")]
    Listen {
        /// The address.
        address: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The device could not be opened.
    #[error(transparent)]
    Engine(#[from] pelton::Error),
    /// A model could not be loaded.
    #[error("{0}")]
    Load(String),
    /// The runtime could not be started.
    #[error("the runtime could not be started: {0}")]
    Runtime(#[source] io::Error),
}

/// A server that listens on its address.
pub struct Server {
    listener: TcpListener,
    app: Arc<App>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("listener", &self.listener).finish_non_exhaustive()
    }
}

impl Server {
    /// Checks the configuration, opens the device and the address, and loads the models (unless
    /// they are to be loaded by their first requests).
    ///
    /// # Errors
    ///
    /// If an option is out of its range, if the address is public and there is no key, or if the
    /// device, the address or a model cannot be opened.
    pub async fn bind(mut config: Config) -> Result<Self, Error> {
        if config.models.is_empty() {
            config.models.push(ModelConfig::built_in());
        }
        check(&config)?;
        let (device, threads) = (config.device, config.threads);
        let opened = tokio::task::spawn_blocking(move || Engine::on(device, threads)).await;
        let engine = opened.map_err(|error| Error::Config(error.to_string()))??;
        let address = (config.host.as_str(), config.port);
        let listener = TcpListener::bind(address).await.map_err(|source| Error::Listen {
            address: format!("{}:{}", config.host, config.port),
            source,
        })?;
        let registry = Registry::new(&config, engine);
        let metrics = Metrics::default();
        let telemetry = Telemetry::start(config.otlp.as_deref().and_then(Collector::parse));
        let stopping = AtomicBool::new(false);
        let responses = crate::store::Store::default();
        let app = Arc::new(App { config, registry, metrics, stopping, telemetry, responses });
        for entry in app.registry.entries() {
            // all metrics are there from the start
            app.metrics.model(&entry.config.name);
            if !app.config.lazy {
                let loaded = app.registry.load(entry).await;
                loaded.map_err(|error| Error::Load(error.to_string()))?;
            }
        }
        Ok(Self { listener, app })
    }

    /// The address.
    ///
    /// # Errors
    ///
    /// If the operating system does not tell it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers requests until `stop` is ready. Then new requests are refused and running ones are
    /// finished, for a limited time.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Self { listener, app } = self;
        let idle = app.config.idle_timeout.map(|time| {
            let app = Arc::clone(&app);
            tokio::spawn(async move {
                let mut ticks = tokio::time::interval((time / 4).max(Duration::from_millis(50)));
                loop {
                    ticks.tick().await;
                    app.registry.unload_idle(time);
                }
            })
        });
        let stopping = Arc::clone(&app);
        let stop = async move {
            stop.await;
            tracing::info!("the server stops");
            stopping.stopping.store(true, Ordering::Relaxed);
        };
        serve(listener, router(Arc::clone(&app)), Arc::clone(&app), stop).await;
        if let Some(idle) = idle {
            idle.abort();
        }
        app.telemetry.flush().await;
        app.registry.unload_all();
    }
}

fn check(config: &Config) -> Result<(), Error> {
    let fail = |message: String| Err(Error::Config(message));
    let mut names: Vec<&str> = Vec::new();
    for model in &config.models {
        let all = std::iter::once(&model.name).chain(&model.aliases);
        names.extend(all.map(String::as_str));
    }
    for (i, name) in names.iter().enumerate() {
        if name.is_empty() {
            return fail("a model has an empty name".to_owned());
        }
        if names[..i].contains(name) {
            return fail(format!("two models have the name {name}, expected different ones"));
        }
    }
    if let Some(key) = config.keys.iter().find(|key| key.secret.is_empty()) {
        return fail(format!("the API key {} is empty", key.name));
    }
    if let Some(url) = &config.otlp
        && Collector::parse(url).is_none()
    {
        return fail(format!("the collector of traces is {url:?}, expected http://HOST:PORT"));
    }
    if config.keys.is_empty() && !config.allow_public && !is_local(&config.host) {
        return fail(format!(
            "{} is a public address: everybody who reaches it could use the models, expected API \
             keys, or a word that this is meant",
            config.host
        ));
    }
    Ok(())
}

/// Runs a server on a runtime of its own until SIGINT (Ctrl-C) or SIGTERM comes; a second one ends
/// the process at once. `ready` is called with the address.
///
/// # Errors
///
/// As [`Server::bind`].
pub fn serve_until_signal(config: Config, ready: impl FnOnce(SocketAddr)) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        // the models compute on threads of their own, which on few cores would have to wait for a
        // second worker that looks for work whenever the first one is woken
        .worker_threads(if available_parallelism().map_or(1, usize::from) > 2 { 2 } else { 1 })
        .max_blocking_threads(64)
        .enable_all()
        .build()
        .map_err(Error::Runtime)?;
    runtime.block_on(async {
        let server = tokio::select! {
            server = Server::bind(config) => server?,
            () = signal() => return Ok(()),
        };
        let address = server.address().map_err(Error::Runtime)?;
        ready(address);
        let stop = async {
            signal().await;
            tokio::spawn(async {
                signal().await;
                std::process::exit(130);
            });
        };
        server.run(stop).await;
        Ok(())
    })
}

/// Waits for SIGINT or SIGTERM.
async fn signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            return;
        }
    }
    // without a handler the signal ends the process
    let _ = tokio::signal::ctrl_c().await;
}
