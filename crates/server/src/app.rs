//! What all handlers share.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{
    extract::{FromRequest, FromRequestParts, Request},
    http::{StatusCode, header, request::Parts},
};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use pelton::Client;

use crate::{
    config::Config,
    error::ApiError,
    input::{Fields, parse},
    metrics::Metrics,
    models::{Lease, Registry},
    run::Context,
    store::Store,
    telemetry::Telemetry,
    usage::Usage,
};

/// The state of the server.
pub(crate) struct App {
    pub(crate) config: Config,
    pub(crate) registry: Registry,
    pub(crate) metrics: Metrics,
    pub(crate) stopping: AtomicBool,
    pub(crate) telemetry: Telemetry,
    /// The responses that later ones may continue.
    pub(crate) responses: Store,
}

/// Who sent a request.
#[derive(Clone)]
pub(crate) struct Caller {
    /// The number of the key in the configuration.
    pub(crate) key: Option<usize>,
    pub(crate) usage: Arc<Usage>,
}

impl App {
    /// What the texts of a request share.
    pub(crate) fn context(&self, lease: Lease, caller: &Caller, salt: Option<&str>) -> Context {
        let metrics = self.metrics.model(&lease.name);
        caller.usage.set_model(&lease.name);
        Context {
            metrics,
            salt: self.salt(caller, salt),
            client: self.client(caller),
            deadline: self.config.limits.request_time,
            log_prompts: self.config.log_prompts,
            usage: Arc::clone(&caller.usage),
            lease: Arc::new(lease),
        }
    }

    /// The namespace of cached prefixes of a caller, with a part that the client chose.
    fn salt(&self, caller: &Caller, chosen: Option<&str>) -> u64 {
        let key = caller.key.filter(|_| !self.config.share_prefixes);
        match (key, chosen) {
            (None, None) => 0,
            salt => {
                let mut hasher = DefaultHasher::new();
                salt.hash(&mut hasher);
                hasher.finish().max(1)
            }
        }
    }

    /// The sender of a caller's requests: its key.
    fn client(&self, caller: &Caller) -> Client {
        let Some(key) = caller.key else { return Client::default() };
        let priority = self.config.keys.get(key).map_or(0, |key| key.priority);
        Client::new(key as u64 + 1).priority(priority)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
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
        Ok(Self(Fields::new(parse(&bytes(request, app).await?)?)?))
    }
}

/// The whole body within its limits of size and time.
async fn bytes(request: Request, app: &App) -> Result<bytes::Bytes, ApiError> {
    let limits = &app.config.limits;
    let too_large = || {
        let limit = limits.body_bytes;
        let message = format!("the body is too large, expected at most {limit} bytes");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    };
    let length = request.headers().get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > limits.body_bytes as u64) {
        return Err(too_large());
    }
    let body = Limited::new(request.into_body(), limits.body_bytes).collect();
    match tokio::time::timeout(limits.body_time, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.downcast_ref::<LengthLimitError>().is_some() => Err(too_large()),
        Ok(Err(error)) => Err(ApiError::invalid(format!("the body could not be read: {error}"))),
        Err(_) => {
            let seconds = limits.body_time.as_secs();
            let message = format!("the body was not complete after {seconds} seconds");
            Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, message))
        }
    }
}
