//! The rules for all requests: keys, origins, limits, identifiers.

use std::{sync::Arc, time::Instant};

use axum::{
    body::Body,
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::{
    access::{Access, GONE, Logged},
    hosts::Hosts,
    limits::{KeyLimits, Permit},
    peer::{Crowded, Peer},
};
use crate::{
    app::{App, Caller, Phase},
    error::{ApiError, Shape},
    telemetry::Place,
    usage::Usage,
    wire::new_id,
};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Routes that need no key.
const OPEN: [&str; 8] =
    ["/live", "/health", "/v1/health", "/ping", "/", "/page/{name}", "/docs", "/openapi.json"];
/// Further routes that are answered while the models are loaded.
const BEFORE: [&str; 10] = [
    "/v1/models",
    "/v1/models/{*name}",
    "/models",
    "/slots",
    "/api/tags",
    "/api/ps",
    "/api/version",
    "/version",
    "/load",
    "/is_sleeping",
];
/// Routes that are answered always.
const ALWAYS: [&str; 5] = ["/live", "/health", "/v1/health", "/ping", "/metrics"];

/// Routes that need an admin key where there are any.
const ADMIN: [&str; 7] = [
    "/models/load",
    "/models/unload",
    "/sleep",
    "/wake_up",
    "/reset_prefix_cache",
    "/api/pull",
    "/api/delete",
];
/// Those of them that change the disk. Without admin keys they are for programs on this machine,
/// where there is no key at all.
const DISK: [&str; 2] = ["/api/pull", "/api/delete"];

/// The limits of all keys.
pub(crate) struct Guard {
    app: Arc<App>,
    /// The hashes of all keys.
    keys: Vec<[u8; 32]>,
    /// By key, and at last those of requests without one.
    limits: Vec<Arc<KeyLimits>>,
}

impl Guard {
    pub(crate) fn new(app: Arc<App>) -> Arc<Self> {
        let keys = app.config.all_keys();
        let keys: Vec<_> = keys.map(|key| Sha256::digest(&key.secret).into()).collect();
        let limits =
            (0..=keys.len()).map(|_| Arc::new(KeyLimits::new(&app.config.limits))).collect();
        Arc::new(Self { app, keys, limits })
    }

    /// The number of the key that a request carries. All keys are compared by their hashes, in a
    /// time that depends on no key.
    fn key(&self, headers: &HeaderMap) -> Option<usize> {
        let bearer = headers.get(header::AUTHORIZATION).and_then(|value| {
            let value = value.as_bytes();
            let (scheme, secret) = value.split_at_checked(7)?;
            scheme.eq_ignore_ascii_case(b"bearer ").then_some(secret)
        });
        let given = bearer.or_else(|| headers.get("x-api-key").map(HeaderValue::as_bytes))?;
        let given = Sha256::digest(given);
        let mut found = None;
        for (i, key) in self.keys.iter().enumerate() {
            if bool::from(key.as_slice().ct_eq(&given)) {
                found = Some(i);
            }
        }
        found
    }
}

/// The identifier of a request: the client's if it is short and plain.
fn request_id(headers: &HeaderMap) -> String {
    let plain = |text: &&str| {
        (1..=128).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
    };
    let given = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).filter(plain);
    given.map_or_else(|| new_id("req-"), str::to_owned)
}

/// Answers a request, or refuses it.
pub(crate) async fn guard(
    State(guard): State<Arc<Guard>>,
    mut request: Request,
    next: Next,
) -> Response {
    let begun = Instant::now();
    let id = request_id(request.headers());
    let matched = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let route = matched.unwrap_or_else(|| "other".to_owned());
    let place = Place::of(request.headers());
    let hosts = Hosts(&guard.app.config);
    let origin = request.headers().get(header::ORIGIN).cloned();
    let shape = shape(&request);
    let checked = check(&guard, &request, &route, origin.as_ref());
    let (key, permit, refused) = match checked {
        Ok((key, permit)) => (key, permit, None),
        Err(error) => (None, None, Some(error)),
    };
    let usage = Arc::new(Usage::new(permit));
    guard.app.metrics.http.begin();
    // from here on the request is logged, also if the client goes away
    let mut access = Access {
        app: Arc::clone(&guard.app),
        id: id.clone(),
        method: request.method().to_string(),
        route: route.clone(),
        path: request.uri().path().to_owned(),
        key: key.and_then(|key| Some(guard.app.config.all_keys().nth(key)?.name.clone())),
        status: GONE,
        reason: Some("the client has gone".to_owned()),
        begun,
        usage: Arc::clone(&usage),
        place,
        complete: false,
    };
    let asks = request.headers().get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    let mut response = match refused {
        Some(error) => error.response(shape),
        None if request.method() == Method::OPTIONS => StatusCode::NO_CONTENT.into_response(),
        None => {
            request.extensions_mut().insert(Caller { key, usage });
            next.run(request).await
        }
    };
    if let (Some(error), Shape::Anthropic | Shape::Ollama) =
        (response.extensions().get::<ApiError>().cloned(), shape)
    {
        response = error.response(shape);
    }
    access.reason = reason(&response);
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, value.clone());
        // the name in the APIs of Anthropic
        headers.insert("request-id", value);
    }
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    if let Some(origin) = origin.filter(|origin| hosts.names_origin(origin)) {
        cors(headers, origin, asks);
    }
    access.status = response.status().as_u16();
    let (parts, inner) = response.into_parts();
    Response::from_parts(parts, Body::new(Logged { inner, access }))
}

/// Why a response is an error.
fn reason(response: &Response) -> Option<String> {
    let status = response.status();
    let error = response.extensions().get::<ApiError>().map(ToString::to_string);
    let of_status = || status.canonical_reason().unwrap_or("an error").to_owned();
    (status.is_client_error() || status.is_server_error()).then(|| error.unwrap_or_else(of_status))
}

type Checked = (Option<usize>, Option<Permit>);

fn check(
    guard: &Guard,
    request: &Request,
    route: &str,
    origin: Option<&HeaderValue>,
) -> Result<Checked, ApiError> {
    let headers = request.headers();
    let hosts = Hosts(&guard.app.config);
    if !hosts.allows_host(headers) {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "the Host header is a name of the web, expected localhost, an address, or a name that \
             --allow-host gives",
        ));
    }
    if let Some(origin) = origin.filter(|origin| !hosts.allows_origin(origin, headers)) {
        let origin = origin.to_str().ok().filter(|origin| origin.len() <= 100);
        let origin = origin.unwrap_or("ORIGIN");
        let message = format!(
            "pages of {origin} may not send requests, expected a server that is started with --cors {origin}, \
             or with --allow-host NAME if this is its own page behind a proxy"
        );
        return Err(ApiError::new(StatusCode::FORBIDDEN, message));
    }
    if request.method() == Method::OPTIONS {
        return Ok((None, None));
    }
    if request.extensions().get::<Crowded>().is_some() && !ALWAYS.contains(&route) {
        let most = guard.app.config.limits.connections;
        let message = format!("all {most} connections of the server are in use");
        return Err(ApiError::unavailable(message));
    }
    match guard.app.phase() {
        Phase::Loading
            if ![&OPEN[..], &BEFORE, &ALWAYS].iter().any(|some| some.contains(&route)) =>
        {
            return Err(ApiError::unavailable("the server is loading its models"));
        }
        Phase::Stopping if !ALWAYS.contains(&route) => {
            return Err(ApiError::unavailable("the server is shutting down"));
        }
        _ => {}
    }
    if OPEN.contains(&route) {
        return Ok((None, None));
    }
    let config = &guard.app.config;
    let key = guard.key(headers);
    let is_admin = ADMIN.contains(&route) && !config.admin_keys.is_empty();
    if (!config.keys.is_empty() || is_admin) && key.is_none() {
        return Err(ApiError::new(
            StatusCode::UNAUTHORIZED,
            "the API key is missing or wrong, expected Authorization: Bearer KEY",
        )
        .code("invalid_api_key"));
    }
    if is_admin && !config.may_administer(key) {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "this key may not administer the server, expected one of --admin-key-file",
        ));
    }
    let is_trusted = config.keys.is_empty() && Peer::is_of_this_machine(request);
    if DISK.contains(&route) && config.admin_keys.is_empty() && !is_trusted {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "only a key of --admin-key-file may download and delete models, or, without any key, a \
             program on the server's machine",
        ));
    }
    if request.method() != Method::POST {
        return Ok((key, None));
    }
    let permit = guard.limits[key.unwrap_or(guard.keys.len())].enter(Instant::now())?;
    Ok((key, Some(permit)))
}

/// The shape of the errors of a path, whether it is one or not. Anthropic's clients name the
/// version of their API.
fn shape(request: &Request) -> Shape {
    let path = request.uri().path();
    let below = |parent: &str| {
        path.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if below("/v1/messages")
        || below("/messages")
        || below("/v1/models") && request.headers().contains_key("anthropic-version")
    {
        Shape::Anthropic
    } else if below("/api") || path == "/inference" {
        Shape::Ollama
    } else {
        Shape::OpenAi
    }
}

/// The headers for pages of an origin that is allowed; `asks` are the headers that one wants to
/// send.
fn cors(headers: &mut HeaderMap, origin: HeaderValue, asks: Option<HeaderValue>) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
    let exposed = HeaderValue::from_static("x-request-id, request-id, retry-after");
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    let methods = HeaderValue::from_static("GET, POST, DELETE, OPTIONS");
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    // two hours: browsers keep it no longer
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("7200"));
    if let Some(asks) = asks {
        headers.append(header::VARY, HeaderValue::from_static("Access-Control-Request-Headers"));
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, asks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_of_clients() {
        let mut headers = HeaderMap::new();
        headers.insert(REQUEST_ID, HeaderValue::from_static("trace-1.a_B"));
        assert_eq!(request_id(&headers), "trace-1.a_B");
        headers.insert(REQUEST_ID, HeaderValue::from_static("a b"));
        assert!(request_id(&headers).starts_with("req-"));
    }
}
