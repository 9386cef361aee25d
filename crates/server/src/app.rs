//! The state that all handlers share.

use std::sync::Arc;

use axum::{
    extract::{FromRequest, FromRequestParts, Request},
    http::{StatusCode, header, request::Parts},
};
use pelton::Client;
use tokio::sync::watch;

use crate::{
    config::Config,
    error::ApiError,
    generate::{Context, blocking},
    input::{Bodies, Fields, Form, parse_body},
    metrics::Metrics,
    models::{Lease, Registry, Sleep},
    pulls::Pulls,
    salts::Salts,
    store::Store,
    telemetry::Telemetry,
    usage::Usage,
};

/// Bodies up to this size are parsed at once: that takes less than a way to another thread and
/// back.
const SMALL: usize = 16 << 10;

/// Where the server stands in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The models are loaded that are to be there from the start.
    Loading,
    Ready,
    /// Running requests end, new ones are refused.
    Stopping,
}

/// The state of the server.
pub(crate) struct App {
    pub(crate) config: Config,
    pub(crate) registry: Registry,
    pub(crate) sleep: Sleep,
    pub(crate) metrics: Metrics,
    pub(crate) phase: watch::Sender<Phase>,
    pub(crate) bodies: Bodies,
    pub(crate) salts: Arc<Salts>,
    pub(crate) telemetry: Telemetry,
    /// The responses that later ones may continue.
    pub(crate) responses: Store,
    /// Downloads, if they are switched on.
    pub(crate) pulls: Option<Arc<Pulls>>,
}

/// Who sent a request.
#[derive(Clone)]
pub(crate) struct Caller {
    /// The number of the key in the configuration.
    pub(crate) key: Option<usize>,
    pub(crate) usage: Arc<Usage>,
}

impl App {
    /// The values that the texts of a request share.
    pub(crate) fn context(&self, lease: Lease, caller: &Caller, salt: Option<&str>) -> Context {
        let metrics = self.metrics.model(&lease.name);
        caller.usage.set_model(&lease.name);
        Context {
            metrics,
            salt: self.salts.number(caller.key.filter(|_| !self.config.share_prefixes), salt),
            client: self.client(caller),
            deadline: self.config.limits.request_time,
            log_prompts: self.config.log_prompts,
            usage: Arc::clone(&caller.usage),
            lease: Arc::new(lease),
        }
    }

    /// The sender of a caller's requests: its key.
    fn client(&self, caller: &Caller) -> Client {
        let Some(key) = caller.key else { return Client::default() };
        let priority = self.config.all_keys().nth(key).map_or(0, |key| key.priority);
        Client::new(key as u64 + 1).priority(priority)
    }

    /// The form of a request with a file, whose memory is counted until the request has ended.
    pub(crate) async fn form(&self, request: Request, caller: &Caller) -> Result<Form, ApiError> {
        let (form, held) = Form::read(request, &self.bodies, &self.config.limits).await?;
        caller.usage.hold(held);
        Ok(form)
    }

    pub(crate) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let caller = parts.extensions.get::<Self>().cloned();
        caller.ok_or_else(|| ApiError::internal("the request has no caller"))
    }
}

/// The fields of a body.
pub(crate) struct Json(pub(crate) Fields);

impl FromRequest<Arc<App>> for Json {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, ApiError> {
        if let Some(kind) = request.headers().get(header::CONTENT_TYPE) {
            let kind = kind.as_bytes();
            let is_json = kind.to_ascii_lowercase().starts_with(b"application/json");
            // curl's default, which Ollama's users send
            let is_form = kind.starts_with(b"application/x-www-form-urlencoded");
            if !is_json && !is_form {
                return Err(ApiError::new(
                    StatusCode::UNSUPPORTED_MEDIA_TYPE,
                    "the body has another content type, expected application/json",
                ));
            }
        }
        let caller = request.extensions().get::<Caller>().cloned();
        let (body, mut held) = app.bodies.read(request, &app.config.limits).await?;
        let (value, cost) = match body.len() {
            0..=SMALL => parse_body(&body)?,
            _ => blocking(move || parse_body(&body)).await?,
        };
        held.keep(cost);
        if let Some(caller) = caller {
            caller.usage.hold(held);
        }
        Ok(Self(Fields::new(value)?))
    }
}
