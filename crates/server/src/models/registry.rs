//! Models by name.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

use axum::http::StatusCode;
use pelton::LoadOptions;
use pelton_hub::Spelling;

use super::{
    Kind, Served,
    entry::{Entry, Keep, Lease},
    load::{Engines, Load},
};
use crate::{
    config::{Config, ModelConfig, lora_name},
    defaults::Defaults,
    error::ApiError,
    kv_events::Publisher,
    media::Media,
};

/// Models by name.
pub(crate) struct Registry {
    /// Those of the configuration, then those that were downloaded since.
    entries: RwLock<Vec<Arc<Entry>>>,
    /// The number of those of the configuration.
    configured: usize,
    engines: Engines,
    options: LoadOptions,
    defaults: Arc<Defaults>,
    media: Arc<Media>,
    /// How long a model stays without requests, unless they say.
    keep: Keep,
    /// Whether a single model has no names but its own.
    strict: bool,
    /// Publishes the cached prefixes of models, if routers want them.
    publisher: Option<Publisher>,
    /// The names of adapters.
    adapters: Vec<String>,
    /// Models that were deleted, the newest ones. No other model answers by their names.
    deleted: Mutex<VecDeque<Spelling>>,
}

/// How many deleted models are remembered.
const DELETED: usize = 256;

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
            defaults: Arc::new(config.defaults.clone()),
            media: Arc::new(Media::new(&config.media_hosts)),
            keep,
            strict: config.strict_models,
            publisher,
            adapters: config.load.loras.iter().map(|lora| lora_name(&lora.path)).collect(),
            deleted: Mutex::default(),
        }
    }

    fn deleted(&self) -> MutexGuard<'_, VecDeque<Spelling>> {
        self.deleted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The models of this moment.
    pub(crate) fn entries(&self) -> Vec<Arc<Entry>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds a model that was downloaded by a name, which its first request loads. Files that are
    /// offered already have its names too. A newer version takes the place of an older one.
    pub(crate) fn add(&self, config: ModelConfig, asked: &str) {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let names: Vec<Spelling> =
            std::iter::once(&config.name).chain(&config.aliases).map(|n| Spelling::of(n)).collect();
        self.deleted().retain(|deleted| !names.contains(deleted));
        let same = entries.iter().find(|entry| entry.config.is_same_model(&config));
        if let Some(same) = same {
            let names = std::iter::once(config.name).chain(config.aliases);
            names.chain([asked.to_owned()]).for_each(|name| same.add_name(name));
            return;
        }
        let new = |config| {
            let entry = Entry::new(config, self.keep);
            entry.add_name(asked.to_owned());
            Arc::new(entry)
        };
        match names
            .first()
            .and_then(|name| entries.iter().position(|one| one.has_name(|_, own| own == name)))
        {
            Some(at) if at < self.configured => tracing::info!(
                model = config.name,
                "the server offers an older version of the download until it is started again"
            ),
            Some(at) => {
                let old = std::mem::replace(&mut entries[at], new(config));
                tokio::spawn(async move { old.unload().await });
            }
            None => entries.push(new(config)),
        }
    }

    /// Takes a model out that was downloaded.
    pub(crate) fn remove(&self, name: &str) -> Result<Arc<Entry>, ApiError> {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        match position(&entries, name) {
            Some(at) if at < self.configured => {
                let message = format!(
                    "the model {name} is one that the server was started with, expected one that \
                     /api/pull has downloaded"
                );
                Err(ApiError::new(StatusCode::FORBIDDEN, message))
            }
            Some(at) => {
                let entry = entries.remove(at);
                let mut deleted = self.deleted();
                deleted.extend(entry.spellings());
                deleted.push_back(Spelling::of(name));
                let old = deleted.len().saturating_sub(DELETED);
                deleted.drain(..old);
                Ok(entry)
            }
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

    /// The model for requests with a name, which may be that of an adapter. A server with one model
    /// of the kind answers any name by that, unless names are strict. Names near a known one are
    /// refused: those of other files of a repository, and of a model that was deleted.
    pub(crate) fn find(&self, name: Option<&str>, kind: Kind) -> Result<Arc<Entry>, ApiError> {
        self.find_among(name, kind, self.configured)
    }

    /// As [`find`](Self::find), for Ollama's clients: they download models and then name them. A
    /// server answers any name only as long as it has one model, whether it was started with it or
    /// not.
    pub(crate) fn find_exact(&self, name: &str, kind: Kind) -> Result<Arc<Entry>, ApiError> {
        self.find_among(Some(name), kind, usize::MAX)
    }

    /// The model for a name. Any name is that of the only model of the first `among` ones.
    fn find_among(
        &self,
        name: Option<&str>,
        kind: Kind,
        among: usize,
    ) -> Result<Arc<Entry>, ApiError> {
        let entries = self.entries();
        let first = &entries[..among.min(entries.len())];
        let named = name.and_then(|name| Some(&entries[position(&entries, name)?]));
        let only = |entries: &[Arc<Entry>]| {
            for kind in kind.nearest() {
                let fits = |entry: &&Arc<Entry>| entry.kind().is_none_or(|own| own == *kind);
                let mut of_kind = entries.iter().filter(fits);
                match (of_kind.next(), of_kind.next()) {
                    (Some(only), None) => return Some(Arc::clone(only)),
                    (Some(_), Some(_)) => return None,
                    _ => {}
                }
            }
            // one of another kind has an error that says so
            match entries {
                [only] => Some(Arc::clone(only)),
                _ => None,
            }
        };
        let only = match name {
            None => only(first),
            Some(name) if self.adapters.iter().any(|own| own == name) => only(first),
            Some(name) if !self.strict && !self.is_near(name, &entries) => only(first),
            Some(_) => None,
        };
        let named = named.cloned();
        match (named.or(only), name) {
            (Some(entry), _) => Ok(entry),
            (None, Some(name)) => Err(self.unknown(name)),
            (None, None) => {
                let message = format!("model is missing, expected one of {}", self.names());
                Err(ApiError::field("model", message))
            }
        }
    }

    /// Whether a name that no model has is one of a repository of which there are other files, or
    /// of a model that was deleted.
    fn is_near(&self, name: &str, entries: &[Arc<Entry>]) -> bool {
        let name = Spelling::of(name);
        let is_near = |own: &Spelling| own.is_of_same_repository(&name);
        self.deleted().contains(&name)
            || entries.iter().any(|entry| entry.has_name(|_, own| is_near(own)))
    }

    /// The model that has a name.
    pub(crate) fn named(&self, name: &str) -> Result<Arc<Entry>, ApiError> {
        let entries = self.entries();
        let found = position(&entries, name).map(|at| Arc::clone(&entries[at]));
        found.ok_or_else(|| self.unknown(name))
    }

    /// The adapter that a name is the one of, unless a model has it.
    fn adapter(&self, name: Option<&str>) -> Option<String> {
        let name = self.adapters.iter().find(|own| Some(own.as_str()) == name)?;
        position(&self.entries(), name).is_none().then(|| name.clone())
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

    /// As [`lease`](Self::lease), for embeddings.
    pub(crate) async fn lease_embedder(&self, name: Option<&str>) -> Result<Lease, ApiError> {
        let lease = self.lease_of(name, Kind::Embedding).await?;
        lease.model()?;
        Ok(lease)
    }

    /// As [`lease`](Self::lease), for scores.
    pub(crate) async fn lease_scorer(&self, name: Option<&str>) -> Result<Lease, ApiError> {
        let lease = self.lease_of(name, Kind::Scores).await?;
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
        let adapter = self.adapter(name);
        let mut is_second = false;
        loop {
            self.load(&entry).await?;
            // it may be unloaded between the two
            let Some(mut lease) = entry.lease() else { continue };
            match lease.check_files() {
                Err(error) if !is_second => {
                    let model = &entry.config.name;
                    tracing::warn!(model, error, "the model is loaded again");
                    drop(lease);
                    entry.unload_changed().await;
                    is_second = true;
                }
                _ => {
                    lease.adapter = adapter;
                    return Ok(lease);
                }
            }
        }
    }

    /// The first model that generates text or may do so, then one of vectors, then any.
    pub(crate) fn first(&self) -> Option<Arc<Entry>> {
        let entries = self.entries();
        let of = |kind: &Kind| entries.iter().find(|e| e.kind().is_none_or(|own| own == *kind));
        Kind::Text.nearest().iter().find_map(of).or(entries.first()).cloned()
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
            defaults: Arc::clone(&self.defaults),
            media: Arc::clone(&self.media),
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

/// The place of the model with a name: as it is written, in another spelling, or the only model of
/// a repository that is named without its files.
fn position(entries: &[Arc<Entry>], name: &str) -> Option<usize> {
    let spelling = Spelling::of(name);
    let open = || {
        let is_of = |entry: &Arc<Entry>| entry.has_name(|_, own| spelling.leaves_open(own));
        let mut all = entries.iter().enumerate().filter(|(_, entry)| is_of(entry));
        let first = all.next().map(|(at, _)| at);
        first.filter(|_| all.next().is_none())
    };
    entries
        .iter()
        .position(|entry| entry.has_name(|own, _| own == name))
        .or_else(|| entries.iter().position(|entry| entry.has_name(|_, own| *own == spelling)))
        .or_else(open)
}
