//! Downloads that requests ask for: a few at a time, one for each name, ended with the last request
//! that waits for it.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use axum::http::StatusCode;
use pelton::Device;
use pelton_hub::{Cancel, Error, Hub, Model, Phase, Progress, Reference};
use tokio::{sync::watch, task};

use crate::{
    config::{Downloads, ModelConfig},
    error::ApiError,
};

/// Downloads at the same time, but for those of slow hosts.
const MOST: usize = 2;
/// All downloads at the same time.
const ALL: usize = 8;
/// A host is slow below this rate, in bytes a second.
const SLOW: f64 = 64.0 * 1024.0;
/// The part of the time in which a host may stall, after which it may be slow: 10 of 30 seconds.
const START: u32 = 3;
/// The pause after which a refused request may try again.
const RETRY: Duration = Duration::from_secs(10);

/// All downloads.
#[derive(Debug)]
pub(crate) struct Pulls {
    hub: Arc<Hub>,
    downloads: Downloads,
    running: Mutex<Vec<Running>>,
}

/// A download that runs.
#[derive(Debug)]
struct Running {
    /// The normalized name.
    name: String,
    states: watch::Receiver<State>,
    cancel: Cancel,
    begun: Instant,
    /// Requests that wait for it.
    waiting: usize,
}

impl Running {
    /// Whether a host sends so little that the download holds no place of others.
    fn is_slow(&self, start: Duration) -> bool {
        let is_slow = match &*self.states.borrow() {
            State::Coming(progress) => {
                progress.phase == Phase::Downloading && progress.per_second < SLOW
            }
            State::Asking | State::Chosen(_) => true,
            State::Ended(_) => false,
        };
        is_slow && self.begun.elapsed() > start
    }
}

/// The state of a download.
#[derive(Clone, Debug)]
pub(crate) enum State {
    /// The hub is asked.
    Asking,
    /// Why these files, where the name left that open.
    Chosen(String),
    /// Files come.
    Coming(Progress),
    /// All files are there, or it has failed.
    Ended(Result<(), ApiError>),
}

/// A request that waits for a download.
pub(crate) struct Waiting {
    pulls: Arc<Pulls>,
    name: String,
    states: watch::Receiver<State>,
    cancel: Cancel,
}

impl Pulls {
    pub(crate) fn new(downloads: &Downloads) -> Result<Self, Error> {
        let hub = Arc::new(Hub::new(downloads.settings.clone())?);
        Ok(Self { hub, downloads: downloads.clone(), running: Mutex::default() })
    }

    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    fn running(&self) -> MutexGuard<'_, Vec<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a download, or joins the one of the same name. `device` is that of the model, and
    /// `offer` is called when all of it is there.
    pub(crate) fn start(
        self: &Arc<Self>,
        device: Device,
        reference: Reference,
        offer: impl FnOnce(ModelConfig) + Send + 'static,
    ) -> Result<Waiting, ApiError> {
        let name = reference.to_string();
        let waiting = |states: &watch::Receiver<State>, cancel: &Cancel| Waiting {
            pulls: Arc::clone(self),
            name: name.clone(),
            states: states.clone(),
            cancel: cancel.clone(),
        };
        let mut running = self.running();
        if let Some(same) = running.iter_mut().find(|one| one.name == name) {
            same.waiting += 1;
            return Ok(waiting(&same.states, &same.cancel));
        }
        let start = self.downloads.settings.stall / START;
        let fast = running.iter().filter(|one| !one.is_slow(start)).count();
        if fast >= MOST || running.len() >= ALL {
            let count = running.len();
            return Err(ApiError::busy(
                format!("{count} other models are being downloaded"),
                RETRY,
            ));
        }
        let (sender, states) = watch::channel(State::Asking);
        let sender = Arc::new(sender);
        let cancel = Cancel::default();
        let one = waiting(&states, &cancel);
        let (begun, flag) = (Instant::now(), cancel.clone());
        running.push(Running { name: name.clone(), states, cancel: flag, begun, waiting: 1 });
        drop(running);
        let pulls = Arc::clone(self);
        tokio::spawn(async move {
            let outcome = pulls.run(device, reference, &sender, &cancel).await.map(offer);
            pulls.forget(&cancel);
            sender.send_replace(State::Ended(outcome));
        });
        Ok(one)
    }

    /// Downloads a model.
    async fn run(
        &self,
        device: Device,
        reference: Reference,
        states: &Arc<watch::Sender<State>>,
        cancel: &Cancel,
    ) -> Result<ModelConfig, ApiError> {
        let (hub, budget) = (Arc::clone(&self.hub), self.downloads.budget);
        let (name, sender, flag) = (reference.to_string(), Arc::clone(states), cancel.clone());
        let work = move || fetch(&hub, &reference, budget(device), &sender, &flag);
        match task::spawn_blocking(work).await {
            Ok(Ok(model)) => {
                tracing::info!(model = name, "the model is downloaded");
                let aliases = Some(model.name).filter(|other| *other != name).into_iter().collect();
                let file = ModelConfig::file(model.path);
                Ok(ModelConfig { name, aliases, ..file })
            }
            Ok(Err(error)) => {
                tracing::warn!(model = name, %error, "the download failed");
                Err(refusal(&error))
            }
            Err(error) => Err(ApiError::internal(format!("the download could not run: {error}"))),
        }
    }

    /// Forgets the download that has this flag.
    fn forget(&self, cancel: &Cancel) {
        self.running().retain(|one| !one.cancel.is_same(cancel));
    }
}

fn fetch(
    hub: &Hub,
    reference: &Reference,
    budget: Option<u64>,
    states: &watch::Sender<State>,
    cancel: &Cancel,
) -> Result<Model, Error> {
    let plan = hub.plan(reference, budget, cancel)?;
    if let Some(reason) = plan.reason() {
        states.send_replace(State::Chosen(format!("{}: {reason}", plan.name())));
    }
    let mut report = |progress: &Progress| {
        if progress.phase != Phase::Asking {
            states.send_replace(State::Coming(progress.clone()));
        }
    };
    hub.fetch(&plan, &mut report, cancel)
}

/// An error of the hub as clients receive it.
pub(crate) fn refusal(error: &Error) -> ApiError {
    let status = match error {
        Error::Name { .. } | Error::Unknown { .. } => StatusCode::BAD_REQUEST,
        Error::Offline { .. } | Error::Foreign { .. } => StatusCode::FORBIDDEN,
        Error::Files { .. } | Error::Status { status: 401 | 403 | 404, .. } => {
            StatusCode::NOT_FOUND
        }
        Error::Network { .. }
        | Error::Status { .. }
        | Error::Answer { .. }
        | Error::Hash { .. }
        | Error::Model { .. } => StatusCode::BAD_GATEWAY,
        Error::Disk { .. } => StatusCode::INSUFFICIENT_STORAGE,
        Error::Cancelled => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    ApiError::new(status, error.to_string())
}

impl Waiting {
    /// The state now.
    pub(crate) fn now(&mut self) -> State {
        self.states.borrow_and_update().clone()
    }

    /// The next state. Where several follow each other fast, only the last is seen.
    pub(crate) async fn next(&mut self) -> State {
        match self.states.changed().await {
            Ok(()) => self.now(),
            Err(_) => State::Ended(Err(ApiError::unavailable("the download is gone"))),
        }
    }
}

impl Drop for Waiting {
    /// The last request that goes ends the download; what has come stays for the next one.
    fn drop(&mut self) {
        let mut running = self.pulls.running();
        let Some(at) = running.iter().position(|one| one.cancel.is_same(&self.cancel)) else {
            return;
        };
        running[at].waiting -= 1;
        if running[at].waiting == 0 {
            tracing::info!(model = self.name, "the download ends, as nobody waits for it");
            self.cancel.cancel();
            running.remove(at);
        }
    }
}
