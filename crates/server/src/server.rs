//! A server: bound to an address, run until it is stopped.

use std::{future::Future, io, sync::Arc, thread::available_parallelism, time::Duration};

use pelton::{Device, Engine, EngineBuilder};
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};

use crate::{
    api::router,
    app::{App, Phase},
    config::{Config, KvEvents, ModelConfig, lora_name},
    generate::BLOCKING_THREADS,
    http::{Address, Listener, Tls, is_local, serve},
    input::Bodies,
    kv_events::{Listeners, Names, Publisher},
    metrics::Metrics,
    models::{Engines, REPLICAS_MAX, Registry, Sleep},
    pulls::Pulls,
    salts::Salts,
    store::Store,
    telemetry::{Collector, Telemetry},
};

/// The time between two looks for models that nothing has used for their time.
const LOOK: Duration = Duration::from_millis(200);
/// The time for models to be freed at the end. Models that compute for longer end with the process.
const FREE_TIME: Duration = Duration::from_secs(1);

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option is not as it must be.
    #[error("{0}")]
    Config(String),
    /// The address could not be listened on.
    #[error("{address} could not be listened on")]
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
    address: Address,
    listener: Listener,
    tls: Option<Arc<Tls>>,
    app: Arc<App>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    /// Checks the configuration, opens the device and the address. The models are loaded by
    /// [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// If an option is out of its range, if the address is public and there is no key, or if the
    /// device or the address cannot be opened.
    pub async fn bind(mut config: Config) -> Result<Self, Error> {
        if config.models.is_empty() {
            config.models.push(ModelConfig::built_in());
        }
        check(&config)?;
        let (device, replicas) = (config.device, config.replicas);
        let engine = Engine::builder().threads(config.threads).repack(!config.in_file_order);
        let threads = config.threads;
        let opened = tokio::task::spawn_blocking(move || {
            let devices = device.replicas(replicas).map_err(Error::Config)?;
            Ok::<_, Error>(engines(&engine, &devices, threads)?)
        });
        let engines = opened.await.map_err(|error| Error::Config(error.to_string()))??;
        let tls = config.tls.as_ref().map(Tls::open).transpose().map_err(Error::Config)?;
        let listener = Listener::bind(&config, tls.clone()).await.map_err(|source| {
            let address = match config.unix_path() {
                Some(_) => config.host.clone(),
                None => format!("{}:{}", config.host, config.port),
            };
            Error::Listen { address, source }
        })?;
        let address = listener.address().map_err(Error::Runtime)?;
        let salts = Arc::new(Salts::default());
        let publisher = match &config.kv_events {
            Some(events) => Some(publisher(&config, events, &address, &salts).await?),
            None => None,
        };
        let registry = Registry::new(&config, engines, publisher);
        let metrics = Metrics::default();
        let telemetry = Telemetry::start(config.otlp.as_deref().and_then(Collector::parse));
        let phase = watch::Sender::new(Phase::Loading);
        let bodies = Bodies::new(&config.limits);
        let responses = Store::default();
        let pulls = config.downloads.as_ref().map(Pulls::new).transpose();
        let pulls = pulls.map_err(|error| Error::Config(error.to_string()))?.map(Arc::new);
        let sleep = Sleep::default();
        let app = App {
            config,
            registry,
            sleep,
            metrics,
            phase,
            bodies,
            salts,
            telemetry,
            responses,
            pulls,
        };
        let app = Arc::new(app);
        for entry in &app.registry.entries() {
            // all metrics are there from the start
            app.metrics.model(&entry.config.name);
        }
        Ok(Self { address, listener, tls, app })
    }

    /// The address.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Waits until the models are loaded (unless they are to be loaded by their first requests).
    /// Whether they are; if not, the server has ended.
    pub fn ready(&self) -> impl Future<Output = bool> + Send + 'static {
        let mut phases = self.app.phase.subscribe();
        async move {
            let phase = phases.wait_for(|phase| *phase != Phase::Loading).await;
            phase.is_ok_and(|phase| *phase == Phase::Ready)
        }
    }

    /// Loads the models and answers requests until `stop` is ready: until the models are loaded
    /// and from `stop` on with 503. Then running requests are finished, for a limited time.
    ///
    /// # Errors
    ///
    /// If a model cannot be loaded that is to be there from the start.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), Error> {
        let Self { listener, tls, app, .. } = self;
        let reloads = tls.map(|tls| tokio::spawn(async move { tls.watch().await }));
        let looks = {
            let app = Arc::clone(&app);
            tokio::spawn(async move {
                let mut ticks = tokio::time::interval(LOOK);
                loop {
                    ticks.tick().await;
                    app.registry.unload_idle();
                }
            })
        };
        let mut outcome = Ok(());
        let ends = async {
            tokio::select! {
                () = stop => tracing::info!("the server stops"),
                error = load(&app) => outcome = Err(error),
            }
            app.phase.send_replace(Phase::Stopping);
        };
        serve(listener, router(Arc::clone(&app)), Arc::clone(&app), ends).await;
        looks.abort();
        reloads.inspect(tokio::task::JoinHandle::abort);
        app.telemetry.flush().await;
        if timeout(FREE_TIME, app.registry.unload_all()).await.is_err() {
            tracing::debug!("the server ends while models compute");
        }
        outcome
    }
}

/// Opens the devices of replicas. Those on the CPU share its threads, of which each has at least
/// one.
fn engines(
    engine: &EngineBuilder,
    devices: &[Device],
    threads: usize,
) -> Result<Engines, pelton::Error> {
    let text = devices.iter().enumerate().map(|(i, &device)| {
        let engine = match device {
            Device::Cpu => engine.clone().threads((threads + i) / devices.len()),
            _ => engine.clone(),
        };
        engine.device(device).build().map(Arc::new)
    });
    let text: Vec<Arc<Engine>> = text.collect::<Result<_, _>>()?;
    let speech = match text.first() {
        Some(first) if first.backend() != "cpu" => Arc::clone(first),
        _ => Arc::new(engine.clone().device(Device::Cpu).build()?),
    };
    Ok(Engines { text, speech })
}

/// Loads the models that are to be there from the start; ends with an error only.
async fn load(app: &App) -> Error {
    for entry in app.registry.entries().iter().filter(|_| !app.config.lazy) {
        if let Err(error) = app.registry.load(entry).await {
            return Error::Load(error.to_string());
        }
    }
    app.phase.send_if_modified(|phase| {
        let loads = *phase == Phase::Loading;
        if loads {
            *phase = Phase::Ready;
        }
        loads
    });
    std::future::pending().await
}

/// Listens on the addresses of events, and begins to publish.
async fn publisher(
    config: &Config,
    events: &KvEvents,
    own: &Address,
    salts: &Arc<Salts>,
) -> Result<Publisher, Error> {
    let listeners = Listeners::bind(&events.address, events.replay.as_deref()).await;
    let listeners = listeners.map_err(|(address, source)| Error::Listen { address, source })?;
    let address = listeners.address().map_err(Error::Runtime)?;
    let own = || own.socket().map_or_else(|| own.to_string(), |socket| socket.to_string());
    let pod = events.pod.clone().unwrap_or_else(own);
    tracing::info!(%address, pod, "events of cached prefixes are published");
    let loras = config.load.loras.iter().map(|lora| lora_name(&lora.path)).collect();
    Ok(Publisher::start(listeners, pod, Names { loras, salts: Arc::clone(salts) }))
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
    if let Some(path) = config.unix_path() {
        if cfg!(not(unix)) {
            return fail(format!(
                "{} is a Unix socket, expected the address of a network",
                config.host
            ));
        }
        if path.as_os_str().is_empty() {
            return fail("the Unix socket has no path, expected unix:PATH".to_owned());
        }
        if config.tls.is_some() {
            return fail(format!(
                "{} is on this machine only and has no TLS, expected an address, or no --tls-cert",
                config.host
            ));
        }
    }
    if !(1..=REPLICAS_MAX).contains(&config.replicas) {
        return fail(format!("--replicas is {}, expected 1 to {REPLICAS_MAX}", config.replicas));
    }
    let parts = [
        ("--split", !config.load.placement.split.is_empty()),
        ("--gpu-layers", config.load.placement.gpu_layers.is_some()),
    ];
    if let Some((option, _)) = parts.iter().find(|(_, given)| *given && config.replicas > 1) {
        return fail(format!(
            "{option} shares the layers of a model, and each of {} replicas has all of them, expected \
             one of the two options",
            config.replicas
        ));
    }
    if let Some(key) = config.all_keys().find(|key| key.secret.is_empty()) {
        return fail(format!("the API key {} is empty", key.name));
    }
    if let Some(url) = &config.otlp
        && Collector::parse(url).is_none()
    {
        return fail(format!("the collector of traces is {url:?}, expected http://HOST:PORT"));
    }
    for address in config.kv_events.iter().flat_map(KvEvents::addresses) {
        let Some((host, _)) =
            address.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok())
        else {
            return fail(format!("the address of KV events is {address:?}, expected HOST:PORT"));
        };
        if !config.allow_public && !is_local(host.trim_matches(['[', ']'])) {
            return fail(format!(
                "the KV events on {address} have the tokens of prompts, and everybody who reaches a \
                 public address could read them, expected an address of this machine, or --allow-public"
            ));
        }
    }
    if config.keys.is_empty() && !config.allow_public && !is_local(&config.host) {
        return fail(format!(
            "{} is a public address: everybody who reaches it could use the models, expected API \
             keys (--api-key-file FILE or --api-key KEY), or --allow-public",
            config.host
        ));
    }
    Ok(())
}

/// Progress of a server that [`serve_until_signal`] runs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// It listens on the address, and loads its models.
    Loading(Address),
    /// It answers requests on the address.
    Ready(Address),
}

/// Runs a server on a runtime of its own until SIGINT (Ctrl-C) or SIGTERM comes; a second one ends
/// the process at once. Nothing that computes delays the end.
///
/// # Errors
///
/// As [`Server::bind`] and [`Server::run`].
pub fn serve_until_signal(
    config: Config,
    tell: impl Fn(Progress) + Send + Sync + 'static,
) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        // the models compute on threads of their own, which on few cores would have to wait for a
        // second worker that looks for work whenever the first one is woken
        .worker_threads(if available_parallelism().map_or(1, usize::from) > 2 { 2 } else { 1 })
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build()
        .map_err(Error::Runtime)?;
    let outcome = runtime.block_on(async {
        let (sender, mut signals) = mpsc::channel(1);
        tokio::spawn(async move {
            // without a handler a signal ends the process
            let Ok(mut source) = Signals::new() else { return };
            source.next().await;
            // a server that has ended needs none
            let _ = sender.send(()).await;
            source.next().await;
            std::process::exit(130)
        });
        let server = tokio::select! {
            server = Server::bind(config) => server?,
            Some(()) = signals.recv() => return Ok(()),
        };
        let address = server.address().clone();
        tell(Progress::Loading(address.clone()));
        let ready = server.ready();
        tokio::spawn(async move {
            if ready.await {
                tell(Progress::Ready(address));
            }
        });
        let stop = async {
            if signals.recv().await.is_none() {
                std::future::pending().await
            }
        };
        server.run(stop).await
    });
    runtime.shutdown_background();
    outcome
}

/// SIGINT and SIGTERM; on Windows the events of a console: Ctrl-C, Ctrl-Break, its end, a shutdown.
struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(windows)]
    interrupt: tokio::signal::windows::CtrlC,
    #[cfg(windows)]
    stop: tokio::signal::windows::CtrlBreak,
    #[cfg(windows)]
    close: tokio::signal::windows::CtrlClose,
    #[cfg(windows)]
    shutdown: tokio::signal::windows::CtrlShutdown,
}

#[cfg(unix)]
impl Signals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { interrupt, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(windows)]
impl Signals {
    fn new() -> io::Result<Self> {
        use tokio::signal::windows::{ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown};
        Ok(Self {
            interrupt: ctrl_c()?,
            stop: ctrl_break()?,
            close: ctrl_close()?,
            shutdown: ctrl_shutdown()?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.stop.recv() => {}
            _ = self.close.recv() => {}
            _ = self.shutdown.recv() => {}
        }
    }
}
