//! The description of the APIs: `/openapi.json` and `/docs`.

mod routes;
mod schema;
mod types;

use axum::{
    Json as Answer,
    http::{HeaderValue, header},
    response::{Html, IntoResponse, Response},
};
use serde_json::Value;

/// `GET /openapi.json`
pub(super) async fn document() -> Answer<Value> {
    Answer(schema::document())
}

/// `GET /docs`
pub(super) async fn page() -> Response {
    let policy = "default-src 'none'; style-src 'unsafe-inline'";
    let policy = HeaderValue::from_static(policy);
    ([(header::CONTENT_SECURITY_POLICY, policy)], Html(schema::html())).into_response()
}
