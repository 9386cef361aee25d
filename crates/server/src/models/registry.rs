//! Models by name.

use std::sync::{Arc, PoisonError, RwLock};

use axum::http::StatusCode;
use pelton::LoadOptions;

use super::{
    Kind, Served,
    entry::{Entry, Keep, Lease},
    load::{Engines, Load},
};
use crate::{
    config::{Config, ModelConfig},
    error::ApiError,
    kv_events::Publisher,
};

/// Models by name.
pub(crate) struct Registry {
    /// Those of the configuration, then those that were downloaded since.
    entries: RwLock<Vec<Arc<Entry>>>,
    /// The number of those of the configuration.
    configured: usize,
    engines: Engines,
    options: LoadOptions,
    /// How long a model stays without requests, unless they say.
    keep: Keep,
    /// Whether a single model has no names but its own.
    strict: bool,
    /// Publishes the cached prefixes of models, if routers want them.
    publisher: Option<Publisher>,
}

impl Registry {
    pub(crate) fn new(config: &Config, engines: Engines, publisher: Option<Publisher>) -> Self {
        let keep = config.idle_timeout.map_or(Keep::Forever, Keep::For);
        let entries = config.models.iter().cloned();
        Self {
            entries: entries
                .map(|model| Arc::new(Entry::new(model, keep)))
                .collect::<Vec<_>>()
                .into(),
            configured: config.models.len(),
            engines,
            options: config.load.clone(),
            keep,
            strict: config.strict_models,
            publisher,
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
        let same = entries.iter().find(|entry| entry.config.is_same_model(&config));
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
        self.engines.backend()
    }

    /// The replicas of each model of text.
    pub(crate) fn replicas(&self) -> usize {
        self.engines.text.len()
    }

    /// How long a model stays without requests, unless they say.
    pub(crate) fn keep(&self) -> Keep {
        self.keep
    }

    /// The model for requests with a name. A server that was started with one model of the kind answers
    /// any name by that, unless names are strict.
    pub(crate) fn find(&self, name: Option<&str>, kind: Kind) -> Result<Arc<Entry>, ApiError> {
        let entries = self.entries();
        let named = name.and_then(|name| entries.iter().find(|entry| entry.is_named(name)));
        let only = || {
            let configured = &entries[..self.configured.min(entries.len())];
            let fits = |entry: &&Arc<Entry>| entry.kind().is_none_or(|own| own == kind);
            let mut of_kind = configured.iter().filter(fits);
            match (of_kind.next(), of_kind.next(), configured) {
                // one of the other kind has an error that says so
                (Some(only), None, _) | (None, None, [only]) => Some(only),
                _ => None,
            }
        };
        let only = if name.is_none() || !self.strict { only() } else { None };
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

    /// The model of text with a name, loaded first if it is not.
    pub(crate) async fn lease(&self, name: Option<&str>) -> Result<Lease, ApiError> {
        let lease = self.lease_of(name, Kind::Text).await?;
        lease.model()?;
        Ok(lease)
    }

    /// The model with a name that recognizes speech, loaded first if it is not.
    pub(crate) async fn lease_listener(&self, name: Option<&str>) -> Result<Lease, ApiError> {
        let lease = self.lease_of(name, Kind::Speech).await?;
        lease.listener()?;
        Ok(lease)
    }

    async fn lease_of(&self, name: Option<&str>, kind: Kind) -> Result<Lease, ApiError> {
        let entry = self.find(name, kind)?;
        let mut is_second = false;
        loop {
            self.load(&entry).await?;
            // it may be unloaded between the two
            let Some(lease) = entry.lease() else { continue };
            match lease.check_files() {
                Err(error) if !is_second => {
                    let model = &entry.config.name;
                    tracing::warn!(model, error, "the model is loaded again");
                    drop(lease);
                    entry.unload_changed().await;
                    is_second = true;
                }
                _ => return Ok(lease),
            }
        }
    }

    /// The first model of text, or the first one if none is known to be.
    pub(crate) fn first(&self) -> Option<Arc<Entry>> {
        let entries = self.entries();
        let of_text = entries.iter().find(|entry| entry.kind() != Some(Kind::Speech));
        of_text.or(entries.first()).cloned()
    }

    /// As [`lease`](Self::lease), for paths that mean the first model without a name.
    pub(crate) async fn lease_or_first(&self, name: Option<&str>) -> Result<Lease, ApiError> {
        let first = self.first().map(|entry| entry.config.name.clone());
        self.lease(name.or(first.as_deref())).await
    }

    /// Loads a model if it is not loaded. It goes on if the caller stops waiting.
    pub(crate) async fn load(&self, entry: &Arc<Entry>) -> Result<Arc<Served>, ApiError> {
        let load = Load {
            config: entry.config.clone(),
            engines: self.engines.clone(),
            options: self.options.clone(),
            publisher: self.publisher.clone(),
        };
        entry.load(move || load.run()).await
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
