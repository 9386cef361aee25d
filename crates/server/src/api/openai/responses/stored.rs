//! Stored responses: `GET` and `DELETE` of `/v1/responses/{id}`.

use std::sync::Arc;

use axum::{
    Json as Answer,
    extract::{Path, State},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use crate::{
    app::{App, Caller},
    error::ApiError,
};

fn unknown(id: &str) -> ApiError {
    let message = format!(
        "no response {id:?} is stored for this key, expected one of the newest that was created with store"
    );
    ApiError::new(StatusCode::NOT_FOUND, message)
}

/// `GET /v1/responses/{id}`: the response as its request was answered.
pub(in crate::api) async fn read(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let body = app.responses.body(caller.key, &id).ok_or_else(|| unknown(&id))?;
    let kind = HeaderValue::from_static("application/json");
    Ok(([(header::CONTENT_TYPE, kind)], String::from(body)).into_response())
}

/// `DELETE /v1/responses/{id}`
pub(in crate::api) async fn remove(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Answer<Value>, ApiError> {
    match app.responses.remove(caller.key, &id) {
        true => Ok(Answer(json!({"id": id, "object": "response", "deleted": true}))),
        false => Err(unknown(&id)),
    }
}
