//! The list of models; loading and unloading.

use std::sync::Arc;

use axum::{
    Json as Answer,
    extract::{Path, State},
    http::HeaderMap,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    app::{App, Json},
    error::ApiError,
    models::Entry,
};

fn model(entry: &Entry) -> Value {
    let context = entry.loaded().and_then(|served| Some(served.model().ok()?.context()));
    let loras: Vec<String> = match entry.loaded().as_ref().map(|served| served.model()) {
        Some(Ok(model)) => model.loras().iter().map(|name| lora_name(name)).collect(),
        _ => Vec::new(),
    };
    json!({
        "id": entry.config.name, "object": "model", "created": entry.created,
        "owned_by": "pelton", "aliases": entry.config.aliases, "status": entry.state(),
        "max_model_len": context, "loras": loras,
        // as in the API of Anthropic
        "type": "model", "display_name": entry.config.name, "created_at": created_at(entry.created),
    })
}

/// Seconds since 1970 as RFC 3339.
fn created_at(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or_default();
    jiff::Timestamp::from_second(seconds).unwrap_or_default().to_string()
}

/// The name of an adapter in requests: that of its file without the ending.
fn lora_name(path: &str) -> String {
    let path = std::path::Path::new(path);
    path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// A model as Anthropic's API shows it.
fn anthropic(entry: &Entry) -> Value {
    let created = i64::try_from(entry.created).ok();
    let created = created.and_then(|seconds| Timestamp::from_second(seconds).ok());
    json!({
        "id": entry.config.name, "type": "model", "display_name": entry.config.name,
        "created_at": created.unwrap_or_default().to_string(),
    })
}

/// Whether Anthropic's form is expected: its clients name the version of their API.
fn is_anthropic(headers: &HeaderMap) -> bool {
    headers.contains_key("anthropic-version")
}

/// `GET /v1/models`
pub(in crate::api) async fn list(State(app): State<Arc<App>>, headers: HeaderMap) -> Answer<Value> {
    let entries = app.registry.entries();
    if !is_anthropic(&headers) {
        let data: Vec<_> = entries.iter().map(|entry| model(entry)).collect();
        return Answer(json!({"object": "list", "data": data}));
    }
    let name = |entry: Option<&Arc<Entry>>| entry.map(|entry| entry.config.name.clone());
    Answer(json!({
        "data": entries.iter().map(|entry| anthropic(entry)).collect::<Vec<_>>(),
        "has_more": false, "first_id": name(entries.first()), "last_id": name(entries.last()),
    }))
}

/// `GET /v1/models/{name}`
pub(in crate::api) async fn one(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Answer<Value>, ApiError> {
    let entry = app.registry.find(Some(&name))?;
    Ok(Answer(if is_anthropic(&headers) { anthropic(entry) } else { model(entry) }))
}

/// `POST /models/load`
pub(in crate::api) async fn load(
    State(app): State<Arc<App>>,
    Json(mut fields): Json,
) -> Result<Answer<Value>, ApiError> {
    let name = fields.string("model")?;
    let entry = app.registry.find(name.as_deref())?;
    app.registry.load(entry).await?;
    Ok(Answer(json!({"success": true, "model": entry.config.name, "status": entry.state()})))
}

/// `POST /models/unload`
pub(in crate::api) async fn unload(
    State(app): State<Arc<App>>,
    Json(mut fields): Json,
) -> Result<Answer<Value>, ApiError> {
    let name = fields.string("model")?;
    let entry = app.registry.find(name.as_deref())?;
    let unloaded = entry.unload();
    Ok(Answer(json!({"success": true, "model": entry.config.name, "unloaded": unloaded})))
}
