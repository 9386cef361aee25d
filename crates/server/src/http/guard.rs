//! What holds for all requests: keys, origins, limits, identifiers.

use std::{sync::Arc, time::Instant};

use axum::{
    body::Body,
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use subtle::{Choice, ConstantTimeEq};

use super::{
    access::{Access, Logged},
    limits::KeyLimits,
};
use crate::{
    app::{App, Caller},
    error::{ApiError, Shape},
    telemetry::Place,
    usage::Usage,
    wire::new_id,
};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Routes that need no key.
const OPEN: [&str; 6] = ["/health", "/v1/health", "/", "/page/{name}", "/docs", "/openapi.json"];

/// The limits of all keys.
pub(crate) struct Guard {
    app: Arc<App>,
    /// By key; one for all requests where there are no keys.
    limits: Vec<Arc<KeyLimits>>,
}

impl Guard {
    pub(crate) fn new(app: Arc<App>) -> Arc<Self> {
        let count = app.config.keys.len().max(1);
        let limits = (0..count).map(|_| Arc::new(KeyLimits::new(&app.config.limits))).collect();
        Arc::new(Self { app, limits })
    }

    /// The number of the key that a request carries. All keys are compared, each in a time that
    /// does not depend on where it differs.
    fn key(&self, headers: &HeaderMap) -> Option<usize> {
        let bearer = headers.get(header::AUTHORIZATION).and_then(|value| {
            let value = value.as_bytes();
            let (scheme, secret) = value.split_at_checked(7)?;
            scheme.eq_ignore_ascii_case(b"bearer ").then_some(secret)
        });
        let given = bearer.or_else(|| headers.get("x-api-key").map(HeaderValue::as_bytes))?;
        let mut found = None;
        for (i, key) in self.app.config.keys.iter().enumerate() {
            let equal: Choice = key.secret.as_bytes().ct_eq(given);
            if bool::from(equal) {
                found = Some(i);
            }
        }
        found
    }

    /// Whether a page of this origin may send the request.
    fn allows_origin(&self, origin: &HeaderValue, headers: &HeaderMap) -> bool {
        let Ok(origin) = origin.to_str() else { return false };
        let origins = &self.app.config.origins;
        if origins.iter().any(|one| one == "*" || one == origin) {
            return true;
        }
        // the server's own page
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let same = origin.split_once("://").map(|(_, host)| host);
        same.is_some() && same == host
    }

    /// Whether the `Host` header is right: a server without keys on a loopback address refuses
    /// other names, with which a web page could reach it (DNS rebinding).
    fn allows_host(&self, headers: &HeaderMap) -> bool {
        let config = &self.app.config;
        let local = is_local(&config.host);
        if !local || !config.keys.is_empty() || config.allow_public {
            return true;
        }
        let Some(host) = headers.get(header::HOST) else { return true };
        host.to_str().is_ok_and(|host| {
            let name = match host.strip_prefix('[') {
                Some(rest) => rest.split(']').next(),
                None => host.split(':').next(),
            };
            name.is_some_and(is_local)
        })
    }
}

/// Whether a host name is that of this machine only.
pub(crate) fn is_local(host: &str) -> bool {
    let host = host.trim_end_matches('.');
    let address = host.parse::<std::net::IpAddr>();
    host == "localhost"
        || host.ends_with(".localhost")
        || address.is_ok_and(|address| address.is_loopback())
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
    let method = request.method().to_string();
    let usage = Arc::new(Usage::default());
    let place = Place::of(request.headers());
    let origin = request.headers().get(header::ORIGIN).cloned();
    let shape = shape(&request);
    let checked = check(&guard, &request, &route, origin.as_ref());
    let (key, permit, mut response) = match checked {
        Ok((key, permit)) if request.method() == Method::OPTIONS => {
            (key, permit, StatusCode::NO_CONTENT.into_response())
        }
        Ok((key, permit)) => {
            request.extensions_mut().insert(Caller { key, usage: Arc::clone(&usage) });
            (key, permit, next.run(request).await)
        }
        Err(error) => (None, None, error.response(shape)),
    };
    if let (Some(error), Shape::Anthropic | Shape::Ollama) =
        (response.extensions().get::<ApiError>().cloned(), shape)
    {
        response = error.response(shape);
    }
    if let Some(error) = response.extensions().get::<ApiError>() {
        match error.status.is_server_error() {
            true => tracing::warn!(id, %error, "a request fails"),
            false => tracing::debug!(id, %error, "a request is refused"),
        }
    }
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, value.clone());
        // the name in the APIs of Anthropic
        headers.insert("request-id", value);
    }
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    if let Some(origin) = origin.filter(|_| !guard.app.config.origins.is_empty()) {
        cors(headers, origin);
    }
    let key = key.map(|key| guard.app.config.keys[key].name.clone());
    let status = response.status().as_u16();
    let app = Arc::clone(&guard.app);
    let complete = false;
    let access =
        Access { app, id, method, route, key, status, begun, usage, permit, place, complete };
    let (parts, inner) = response.into_parts();
    Response::from_parts(parts, Body::new(Logged { inner, access }))
}

type Checked = (Option<usize>, Option<super::limits::Permit>);

fn check(
    guard: &Guard,
    request: &Request,
    route: &str,
    origin: Option<&HeaderValue>,
) -> Result<Checked, ApiError> {
    let headers = request.headers();
    if !guard.allows_host(headers) {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "the Host header names another machine, expected localhost",
        ));
    }
    if origin.is_some_and(|origin| !guard.allows_origin(origin, headers)) {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "pages of this origin may not send requests, expected one that the server allows",
        ));
    }
    if OPEN.contains(&route) || request.method() == Method::OPTIONS {
        return Ok((None, None));
    }
    let keys = &guard.app.config.keys;
    let key = guard.key(headers);
    if !keys.is_empty() && key.is_none() {
        return Err(ApiError::new(
            StatusCode::UNAUTHORIZED,
            "the API key is missing or wrong, expected Authorization: Bearer KEY",
        )
        .code("invalid_api_key"));
    }
    if request.method() != Method::POST {
        return Ok((key, None));
    }
    if guard.app.is_stopping() {
        return Err(ApiError::unavailable("the server is shutting down"));
    }
    let permit = guard.limits[key.unwrap_or(0)].enter(Instant::now())?;
    Ok((key, Some(permit)))
}

/// The shape of the errors of a path, whether it is one or not. Anthropic's clients name the version
/// of their API.
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
    } else if below("/api") {
        Shape::Ollama
    } else {
        Shape::OpenAi
    }
}

fn cors(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::VARY, HeaderValue::from_static("Origin"));
    let methods = HeaderValue::from_static("GET, POST, DELETE, OPTIONS");
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    let allowed = "authorization, content-type, x-api-key, anthropic-version, anthropic-beta, \
                   x-request-id, x-stainless-arch, x-stainless-lang, x-stainless-os, \
                   x-stainless-package-version, x-stainless-retry-count, x-stainless-runtime, \
                   x-stainless-runtime-version, x-stainless-timeout";
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(allowed));
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("x-request-id"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_hosts() {
        for host in ["localhost", "127.0.0.1", "127.3.2.1", "::1", "a.localhost"] {
            assert!(is_local(host), "{host}");
        }
        for host in ["0.0.0.0", "::", "192.168.1.1", "example.com", "localhost.example.com", ""] {
            assert!(!is_local(host), "{host}");
        }
    }

    #[test]
    fn identifiers_of_clients() {
        let mut headers = HeaderMap::new();
        headers.insert(REQUEST_ID, HeaderValue::from_static("trace-1.a_B"));
        assert_eq!(request_id(&headers), "trace-1.a_B");
        headers.insert(REQUEST_ID, HeaderValue::from_static("a b"));
        assert!(request_id(&headers).starts_with("req-"));
    }
}
