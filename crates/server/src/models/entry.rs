//! One model that the server offers: whether it is loaded, who uses it, when it is unloaded.

use std::{
    sync::{
        Arc, Mutex, OnceLock, PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use pelton_hub::Spelling;
use tokio::{sync::watch, task};

use super::{Kind, Served};
use crate::{config::ModelConfig, error::ApiError};

/// The time between two looks at whether the last use of a model has ended.
const LOOK: Duration = Duration::from_millis(10);

/// Whether a model is there.
#[derive(Clone, Default)]
enum State {
    #[default]
    Unloaded,
    Loading,
    Loaded(Arc<Served>),
    /// Requests still use it, or its memory is being freed.
    Unloading,
    Failed(ApiError),
}

/// How long a model stays without requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    Forever,
    For(Duration),
}

/// A model that the server offers, loaded or not.
pub(crate) struct Entry {
    pub(crate) config: ModelConfig,
    /// Seconds since 1970.
    pub(crate) created: u64,
    /// Its names: those of the configuration, and those under which it was downloaded since the
    /// start.
    names: RwLock<Vec<(String, Spelling)>>,
    state: watch::Sender<State>,
    /// Known from the first load on.
    kind: OnceLock<Kind>,
    /// Requests that use it.
    users: AtomicUsize,
    idle: Mutex<Idle>,
}

/// The last use of a model.
struct Idle {
    since: Instant,
    keep: Keep,
}

/// A loaded model that is used by a request, and not unloaded meanwhile.
pub(crate) struct Lease {
    served: Arc<Served>,
    entry: Arc<Entry>,
    /// The adapter by whose name a request calls the model.
    pub(crate) adapter: Option<String>,
}

impl Entry {
    pub(super) fn new(config: ModelConfig, keep: Keep) -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let names = std::iter::once(&config.name).chain(&config.aliases);
        let names = names.map(|name| (name.clone(), Spelling::of(name))).collect::<Vec<_>>();
        Self {
            config,
            created: now.as_secs(),
            names: names.into(),
            state: watch::Sender::new(State::Unloaded),
            kind: OnceLock::new(),
            users: AtomicUsize::new(0),
            idle: Mutex::new(Idle { since: Instant::now(), keep }),
        }
    }

    /// Whether a test holds for one of its names.
    pub(super) fn has_name(&self, is: impl Fn(&str, &Spelling) -> bool) -> bool {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        names.iter().any(|(name, spelling)| is(name, spelling))
    }

    /// The spellings of its names.
    pub(super) fn spellings(&self) -> Vec<Spelling> {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        names.iter().map(|(_, spelling)| spelling.clone()).collect()
    }

    /// Gives it a further name.
    pub(super) fn add_name(&self, name: String) {
        let spelling = Spelling::of(&name);
        if !self.has_name(|_, own| *own == spelling) {
            self.names.write().unwrap_or_else(PoisonError::into_inner).push((name, spelling));
        }
    }

    /// The kind of the model, once it was loaded.
    pub(crate) fn kind(&self) -> Option<Kind> {
        self.kind.get().copied()
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
            State::Unloading => "unloading",
            State::Failed(_) => "failed",
        }
    }

    fn users(&self) -> usize {
        self.users.load(Ordering::SeqCst)
    }

    /// Sets how long the model stays after each of its requests.
    pub(crate) fn keep(&self, keep: Keep) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).keep = keep;
    }

    /// The time until the model is unloaded; `None` for never.
    pub(crate) fn expires_in(&self) -> Option<Duration> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        match (idle.keep, self.users()) {
            (Keep::Forever, _) => None,
            (Keep::For(time), 0) => Some(time.saturating_sub(idle.since.elapsed())),
            (Keep::For(time), _) => Some(time),
        }
    }

    fn touch(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).since = Instant::now();
    }

    /// The use of the model by a request, if it is loaded.
    pub(super) fn lease(self: &Arc<Self>) -> Option<Lease> {
        // the state cannot change before the user is counted
        let state = self.state.borrow();
        let State::Loaded(served) = &*state else { return None };
        self.users.fetch_add(1, Ordering::SeqCst);
        self.touch();
        Some(Lease { served: Arc::clone(served), entry: Arc::clone(self), adapter: None })
    }

    /// The model, loaded by `load` if it is not. The load goes on if the caller stops waiting.
    pub(super) async fn load(
        self: &Arc<Self>,
        load: impl Fn() -> Result<Served, ApiError> + Clone + Send + 'static,
    ) -> Result<Arc<Served>, ApiError> {
        let mut states = self.state.subscribe();
        loop {
            self.begin(load.clone());
            let settled = |state: &State| !matches!(state, State::Loading | State::Unloading);
            let state = states.wait_for(settled).await;
            match state.as_deref() {
                Ok(State::Loaded(served)) => return Ok(Arc::clone(served)),
                Ok(State::Failed(error)) => return Err(error.clone()),
                // it was unloaded meanwhile
                Ok(_) => {}
                Err(_) => return Err(ApiError::unavailable("the model is gone")),
            }
        }
    }

    /// Begins a load unless the model is there, comes or goes.
    fn begin(self: &Arc<Self>, load: impl FnOnce() -> Result<Served, ApiError> + Send + 'static) {
        let begins = self.state.send_if_modified(|state| {
            let begins = matches!(state, State::Unloaded | State::Failed(_));
            if begins {
                *state = State::Loading;
            }
            begins
        });
        if !begins {
            return;
        }
        let entry = Arc::clone(self);
        tokio::spawn(async move {
            let name = &entry.config.name;
            let outcome = task::spawn_blocking(load).await.unwrap_or_else(|error| {
                Err(ApiError::internal(format!("the model {name} could not be loaded: {error}")))
            });
            let state = match outcome {
                Ok(served) => {
                    entry.kind.get_or_init(|| served.kind());
                    State::Loaded(Arc::new(served))
                }
                Err(error) => {
                    // whoever has asked for the model is told
                    tracing::debug!(model = name, %error, "the load failed");
                    State::Failed(error)
                }
            };
            entry.touch();
            entry.state.send_replace(state);
        });
    }

    /// Unloads the model: new requests wait, running ones end, then its memory is freed. Whether it
    /// was loaded. It goes on if the caller stops waiting.
    pub(crate) async fn unload(self: &Arc<Self>) -> bool {
        let begins = self.begin_unload(|_, _| true);
        self.unloaded().await;
        begins
    }

    /// Unloads the model if one of its files has changed, as [`unload`](Self::unload).
    pub(super) async fn unload_changed(self: &Arc<Self>) {
        self.begin_unload(|_, state| match state {
            State::Loaded(served) => served.check_files().is_err(),
            _ => false,
        });
        self.unloaded().await;
    }

    /// Waits for the end of an unload that runs.
    async fn unloaded(&self) {
        let mut states = self.state.subscribe();
        // an error means that nobody is there to unload
        let _ = states.wait_for(|state| !matches!(state, State::Unloading)).await;
    }

    /// Begins to unload the model if nothing has used it for its time.
    pub(super) fn unload_if_idle(self: &Arc<Self>) {
        self.begin_unload(|entry, _| {
            entry.users() == 0 && entry.expires_in() == Some(Duration::ZERO)
        });
    }

    /// Begins to unload a loaded model, and forgets a failed load, if `wanted`.
    fn begin_unload(self: &Arc<Self>, wanted: impl FnOnce(&Self, &State) -> bool) -> bool {
        let (mut taken, mut begins) = (None, false);
        self.state.send_if_modified(|state| {
            begins = matches!(state, State::Loaded(_) | State::Failed(_)) && wanted(self, state);
            if begins {
                match std::mem::replace(state, State::Unloading) {
                    State::Loaded(served) => taken = Some(served),
                    _ => *state = State::Unloaded,
                }
            }
            begins
        });
        if let Some(mut served) = taken {
            let entry = Arc::clone(self);
            tokio::spawn(async move {
                let last = loop {
                    match Arc::try_unwrap(served) {
                        Ok(last) => break last,
                        Err(used) => served = used,
                    }
                    tokio::time::sleep(LOOK).await;
                };
                // a panic has ended the model too
                let _ = task::spawn_blocking(move || last.close()).await;
                tracing::info!(model = entry.config.name, "the model is unloaded");
                entry.state.send_replace(State::Unloaded);
            });
        }
        begins
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
        self.entry.users.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    }

    fn entry() -> Arc<Entry> {
        Arc::new(Entry::new(ModelConfig::built_in(), Keep::Forever))
    }

    fn built_in() -> Result<Served, ApiError> {
        Served::for_tests()
    }

    #[test]
    fn a_load_that_panics_ends_as_an_error() {
        runtime().block_on(async {
            let entry = entry();
            let error = entry.load(|| panic!("a broken file")).await.err().unwrap();
            assert!(error.message.contains("a broken file"), "{error}");
            assert_eq!(entry.state(), "failed");
            // the next request tries again
            assert!(entry.load(built_in).await.is_ok());
        });
    }

    /// There are never two copies of a model.
    #[test]
    fn a_model_that_is_used_is_unloaded_after_its_users() {
        runtime().block_on(async {
            let entry = entry();
            entry.load(built_in).await.unwrap();
            let lease = entry.lease().unwrap();
            let unload = {
                let entry = Arc::clone(&entry);
                tokio::spawn(async move { entry.unload().await })
            };
            while entry.state() != "unloading" {
                tokio::task::yield_now().await;
            }
            assert!(entry.lease().is_none());
            let again = {
                let entry = Arc::clone(&entry);
                let old = Arc::downgrade(&lease.served);
                let load = move || {
                    assert_eq!(old.strong_count(), 0, "a second copy");
                    built_in()
                };
                tokio::spawn(async move { entry.load(load).await.map(|_| ()) })
            };
            tokio::time::sleep(3 * LOOK).await;
            assert_eq!(entry.state(), "unloading");
            assert!(!again.is_finished() && !unload.is_finished());
            drop(lease);
            assert!(unload.await.unwrap());
            again.await.unwrap().unwrap();
            assert_eq!(entry.state(), "loaded");
        });
    }

    #[test]
    fn idle_models_are_unloaded() {
        runtime().block_on(async {
            let entry = entry();
            entry.load(built_in).await.unwrap();
            entry.unload_if_idle();
            assert_eq!((entry.state(), entry.expires_in()), ("loaded", None));
            entry.keep(Keep::For(Duration::ZERO));
            let lease = entry.lease().unwrap();
            entry.unload_if_idle();
            assert_eq!(entry.state(), "loaded");
            drop(lease);
            entry.unload_if_idle();
            assert_eq!(entry.state(), "unloading");
            assert!(!entry.unload().await);
            assert_eq!(entry.state(), "unloaded");
        });
    }
}
