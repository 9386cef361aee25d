//! Models by name.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Instant,
};

use axum::http::StatusCode;
use pelton::{Engine, LoadOptions, ModelSource, graph::OutputKind};

use super::{
    Served,
    entry::{Entry, Keep, Lease},
};
use crate::{
    config::{Config, ModelConfig},
    error::ApiError,
};

/// Models by name.
pub(crate) struct Registry {
    /// Those of the configuration, then those that were downloaded since.
    entries: RwLock<Vec<Arc<Entry>>>,
    /// The number of those of the configuration.
    configured: usize,
    engine: Arc<Engine>,
    options: LoadOptions,
    /// How long a model stays without requests, unless they say.
    keep: Keep,
    /// Whether a single model has no names but its own.
    strict: bool,
}

impl Registry {
    pub(crate) fn new(config: &Config, engine: Engine) -> Self {
        let keep = config.idle_timeout.map_or(Keep::Forever, Keep::For);
        let entries = config.models.iter().cloned();
        Self {
            entries: entries
                .map(|model| Arc::new(Entry::new(model, keep)))
                .collect::<Vec<_>>()
                .into(),
            configured: config.models.len(),
            engine: Arc::new(engine),
            options: config.load.clone(),
            keep,
            strict: config.strict_models,
        }
    }

    /// The models of this moment.
    pub(crate) fn entries(&self) -> Vec<Arc<Entry>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds a model that was downloaded, which its first request loads. Files that are offered already
    /// have its names too. A newer version takes the place of an older one.
    pub(crate) fn add(&self, config: ModelConfig) {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let same = entries.iter().find(|entry| entry.config.path == config.path);
        if let Some(same) = same {
            let names = std::iter::once(config.name).chain(config.aliases);
            names.for_each(|name| same.add_name(name));
            return;
        }
        match entries.iter().position(|entry| entry.is_named(&config.name)) {
            Some(at) if at < self.configured => tracing::info!(
                model = config.name,
                "the server offers an older version of the download until it is started again"
            ),
            Some(at) => {
                let new = Arc::new(Entry::new(config, self.keep));
                let old = std::mem::replace(&mut entries[at], new);
                tokio::spawn(async move { old.unload().await });
            }
            None => entries.push(Arc::new(Entry::new(config, self.keep))),
        }
    }

    /// Takes a model out that was downloaded.
    pub(crate) fn remove(&self, name: &str) -> Result<Arc<Entry>, ApiError> {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        match entries.iter().position(|entry| entry.is_named(name)) {
            Some(at) if at < self.configured => {
                let message = format!(
                    "the model {name} is one that the server was started with, expected one that \
                     /api/pull has downloaded"
                );
                Err(ApiError::new(StatusCode::FORBIDDEN, message))
            }
            Some(at) => Ok(entries.remove(at)),
            None => {
                drop(entries);
                Err(self.unknown(name))
            }
        }
    }

    /// The name of the backend.
    pub(crate) fn backend(&self) -> &str {
        self.engine.backend()
    }

    /// How long a model stays without requests, unless they say.
    pub(crate) fn keep(&self) -> Keep {
        self.keep
    }

    /// The model for requests with a name. A server that was started with one model answers any name by
    /// that, unless names are strict.
    pub(crate) fn find(&self, name: Option<&str>) -> Result<Arc<Entry>, ApiError> {
        let entries = self.entries();
        let named = name.and_then(|name| entries.iter().find(|entry| entry.is_named(name)));
        let only = match entries.first() {
            Some(only) if self.configured == 1 && (name.is_none() || !self.strict) => Some(only),
            _ => None,
        };
        match (named.or(only), name) {
            (Some(entry), _) => Ok(Arc::clone(entry)),
            (None, Some(name)) => Err(self.unknown(name)),
            (None, None) => {
                let message = format!("model is missing, expected one of {}", self.names());
                Err(ApiError::field("model", message))
            }
        }
    }

    /// The model that has a name.
    pub(crate) fn named(&self, name: &str) -> Result<Arc<Entry>, ApiError> {
        let found = self.entries().into_iter().find(|entry| entry.is_named(name));
        found.ok_or_else(|| self.unknown(name))
    }

    fn unknown(&self, name: &str) -> ApiError {
        let shown: String = name.chars().take(80).collect();
        let message =
            format!("the model {shown:?} does not exist, expected one of {}", self.names());
        let error = ApiError::new(StatusCode::NOT_FOUND, message).code("model_not_found");
        ApiError { param: Some("model".to_owned()), ..error }
    }

    fn names(&self) -> String {
        let names: Vec<_> = self.entries().iter().map(|e| e.config.name.clone()).collect();
        names.join(", ")
    }

    /// The model with a name, loaded first if it is not.
    pub(crate) async fn lease(&self, name: Option<&str>) -> Result<Lease, ApiError> {
        let entry = self.find(name)?;
        loop {
            self.load(&entry).await?;
            // it may be unloaded between the two
            if let Some(lease) = entry.lease() {
                return Ok(lease);
            }
        }
    }

    /// As [`lease`](Self::lease), for paths that mean the first model without a name.
    pub(crate) async fn lease_or_first(&self, name: Option<&str>) -> Result<Lease, ApiError> {
        let first = self.entries().first().map(|entry| entry.config.name.clone());
        self.lease(name.or(first.as_deref())).await
    }

    /// Loads a model if it is not loaded. It goes on if the caller stops waiting.
    pub(crate) async fn load(&self, entry: &Arc<Entry>) -> Result<Arc<Served>, ApiError> {
        let (config, engine) = (entry.config.clone(), Arc::clone(&self.engine));
        let options = self.options.clone();
        entry.load(move || load(&config, &engine, &options)).await
    }

    /// Begins to unload the models that no request has used for their time.
    pub(crate) fn unload_idle(&self) {
        self.entries().iter().for_each(Entry::unload_if_idle);
    }

    /// Unloads all models.
    pub(crate) async fn unload_all(&self) {
        let unload = |entry: Arc<Entry>| tokio::spawn(async move { entry.unload().await });
        let all: Vec<_> = self.entries().into_iter().map(unload).collect();
        for one in all {
            // it may have panicked, which unloads the model too
            let _ = one.await;
        }
    }
}

fn load(config: &ModelConfig, engine: &Engine, options: &LoadOptions) -> Result<Served, ApiError> {
    let begun = Instant::now();
    let source = config.path.as_ref().map_or(ModelSource::BuiltIn, ModelSource::from);
    let model = engine.load(source, options);
    let model = model.map_err(|error| {
        ApiError::internal(format!("the model {} could not be loaded: {error}", config.name))
    })?;
    let summary = model.summary();
    let answers = model.plan().output == OutputKind::Logits;
    let served = Served::new(config, model)?;
    let seconds = begun.elapsed().as_secs_f64();
    tracing::info!(model = config.name, seconds, "the model is loaded: {summary}");
    if answers && !served.has_template {
        tracing::info!(model = config.name, "no chat template: messages are joined by lines");
    }
    Ok(served)
}
