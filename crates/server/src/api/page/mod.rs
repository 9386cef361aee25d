//! The page to chat in: three embedded files, which load nothing from elsewhere.

use axum::{
    http::{HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};

/// Scripts and styles come from the server only, and nothing else is loaded.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

fn file(kind: &'static str, text: &'static str) -> Response {
    let headers: [(HeaderName, HeaderValue); 4] = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    (headers, text).into_response()
}

/// `GET /`
pub(super) async fn index() -> Response {
    file("text/html; charset=utf-8", include_str!("index.html"))
}

/// `GET /page.js`
pub(super) async fn script() -> Response {
    file("text/javascript; charset=utf-8", include_str!("page.js"))
}

/// `GET /markdown.js`
pub(super) async fn markdown() -> Response {
    file("text/javascript; charset=utf-8", include_str!("markdown.js"))
}

/// `GET /page.css`
pub(super) async fn style() -> Response {
    file("text/css; charset=utf-8", include_str!("page.css"))
}
