//! Models by name.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use axum::http::StatusCode;
use pelton::{Engine, LoadOptions};
use tokio::{sync::watch, task};

use super::Served;
use crate::{
    config::{Config, ModelConfig},
    error::ApiError,
};

/// Whether a model is there.
#[derive(Clone, Default)]
enum State {
    #[default]
    Unloaded,
    Loading,
    Loaded(Arc<Served>),
    Failed(ApiError),
}

/// A model that the server offers, loaded or not.
pub(crate) struct Entry {
    pub(crate) config: ModelConfig,
    /// Seconds since 1970.
    pub(crate) created: u64,
    state: watch::Sender<State>,
    /// Requests that use it.
    users: AtomicUsize,
    used: Mutex<Instant>,
}

/// A loaded model that is used by a request, and not unloaded as idle.
pub(crate) struct Lease {
    served: Arc<Served>,
    entry: Arc<Entry>,
}

impl Entry {
    fn new(config: ModelConfig) -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self {
            config,
            created: now.as_secs(),
            state: watch::Sender::new(State::Unloaded),
            users: AtomicUsize::new(0),
            used: Mutex::new(Instant::now()),
        }
    }

    /// The model, if it is loaded.
    pub(crate) fn loaded(&self) -> Option<Arc<Served>> {
        match &*self.state.borrow() {
            State::Loaded(served) => Some(Arc::clone(served)),
            _ => None,
        }
    }

    /// The word for its state.
    pub(crate) fn state(&self) -> &'static str {
        match &*self.state.borrow() {
            State::Unloaded => "unloaded",
            State::Loading => "loading",
            State::Loaded(_) => "loaded",
            State::Failed(_) => "failed",
        }
    }

    /// Requests that use it.
    pub(crate) fn users(&self) -> usize {
        self.users.load(Ordering::Relaxed)
    }

    /// Time since the last request ended.
    pub(crate) fn idle(&self) -> Duration {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Unloads the model when the last request that uses it ends. Whether it was loaded.
    pub(crate) fn unload(&self) -> bool {
        let mut loaded = false;
        self.state.send_if_modified(|state| {
            loaded = matches!(state, State::Loaded(_) | State::Failed(_));
            if loaded {
                *state = State::Unloaded;
            }
            loaded
        });
        if loaded {
            tracing::info!(model = self.config.name, "the model is unloaded");
        }
        loaded
    }
}

impl Lease {
    fn new(served: Arc<Served>, entry: Arc<Entry>) -> Self {
        entry.users.fetch_add(1, Ordering::Relaxed);
        entry.touch();
        Self { served, entry }
    }
}

impl std::ops::Deref for Lease {
    type Target = Served;

    fn deref(&self) -> &Served {
        &self.served
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.entry.touch();
        self.entry.users.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Models by name.
pub(crate) struct Registry {
    entries: Vec<Arc<Entry>>,
    engine: Arc<Engine>,
    options: LoadOptions,
}

impl Registry {
    pub(crate) fn new(config: &Config, engine: Engine) -> Self {
        let entries = config.models.iter().cloned().map(|model| Arc::new(Entry::new(model)));
        let options = config.load.clone();
        Self { entries: entries.collect(), engine: Arc::new(engine), options }
    }

    pub(crate) fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// The name of the backend.
    pub(crate) fn backend(&self) -> &str {
        self.engine.backend()
    }

    /// The model with a name; without a name the only one.
    pub(crate) fn find(&self, name: Option<&str>) -> Result<&Arc<Entry>, ApiError> {
        let names = || {
            let names: Vec<_> = self.entries.iter().map(|e| e.config.name.as_str()).collect();
            names.join(", ")
        };
        let Some(name) = name else {
            return match self.entries.as_slice() {
                [only] => Ok(only),
                _ => {
                    let message = format!("model is missing, expected one of {}", names());
                    Err(ApiError::field("model", message))
                }
            };
        };
        let is_named = |entry: &&Arc<Entry>| {
            entry.config.name == name || entry.config.aliases.iter().any(|alias| alias == name)
        };
        self.entries.iter().find(is_named).ok_or_else(|| {
            let shown: String = name.chars().take(80).collect();
            let message =
                format!("the model {shown:?} does not exist, expected one of {}", names());
            let error = ApiError::new(StatusCode::NOT_FOUND, message).code("model_not_found");
            ApiError { param: Some("model".to_owned()), ..error }
        })
    }

    /// The model with a name, loaded first if it is not.
    pub(crate) async fn lease(&self, name: Option<&str>) -> Result<Lease, ApiError> {
        let entry = self.find(name)?;
        let served = self.load(entry).await?;
        Ok(Lease::new(served, Arc::clone(entry)))
    }

    /// Loads a model if it is not loaded. It goes on if the caller stops waiting.
    pub(crate) async fn load(&self, entry: &Arc<Entry>) -> Result<Arc<Served>, ApiError> {
        let mut states = entry.state.subscribe();
        let mut begin = false;
        entry.state.send_if_modified(|state| {
            begin = matches!(state, State::Unloaded | State::Failed(_));
            if begin {
                *state = State::Loading;
            }
            begin
        });
        if begin {
            let (entry, engine) = (Arc::clone(entry), Arc::clone(&self.engine));
            let options = self.options.clone();
            task::spawn_blocking(move || {
                let state = match load(&entry.config, &engine, &options) {
                    Ok(served) => State::Loaded(Arc::new(served)),
                    Err(error) => {
                        tracing::error!(model = entry.config.name, %error, "the load failed");
                        State::Failed(error)
                    }
                };
                entry.touch();
                entry.state.send_replace(state);
            });
        }
        let state = states.wait_for(|state| !matches!(state, State::Loading)).await;
        match state.as_deref() {
            Ok(State::Loaded(served)) => Ok(Arc::clone(served)),
            Ok(State::Failed(error)) => Err(error.clone()),
            _ => Err(ApiError::unavailable("the model was unloaded during its load")),
        }
    }

    /// Unloads the models that no request has used for a time.
    pub(crate) fn unload_idle(&self, time: Duration) {
        for entry in &self.entries {
            if entry.users() == 0 && entry.loaded().is_some() && entry.idle() >= time {
                entry.unload();
            }
        }
    }

    /// Unloads all models.
    pub(crate) fn unload_all(&self) {
        for entry in &self.entries {
            entry.unload();
        }
    }
}

fn load(config: &ModelConfig, engine: &Engine, options: &LoadOptions) -> Result<Served, ApiError> {
    let begun = Instant::now();
    let model = match &config.path {
        None => engine.load_built_in(options),
        Some(path) => engine.load(path, options),
    };
    let model = model.map_err(|error| {
        ApiError::internal(format!("the model {} could not be loaded: {error}", config.name))
    })?;
    let served = Served::new(config, model)?;
    let seconds = begun.elapsed().as_secs_f64();
    tracing::info!(model = config.name, seconds, "the model is loaded");
    if !served.has_template {
        tracing::info!(model = config.name, "no chat template: messages are joined by lines");
    }
    Ok(served)
}
