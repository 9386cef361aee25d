//! The list of models; loading and unloading.

use std::sync::Arc;

use axum::{
    Json as Answer,
    extract::{Path, State},
};
use serde_json::{Value, json};

use crate::{
    app::{App, Json},
    config::lora_name,
    error::ApiError,
    input::extras,
    models::{Entry, Kind},
};

/// A model under one of its names.
fn model(entry: &Entry, name: &str) -> Value {
    let context = entry.loaded().and_then(|served| Some(served.model().ok()?.context()));
    let loras: Vec<String> = match entry.loaded().as_ref().map(|served| served.model()) {
        Some(Ok(model)) => model.loras().iter().map(|path| lora_name(path.as_ref())).collect(),
        _ => Vec::new(),
    };
    json!({
        "id": name, "object": "model", "created": entry.created,
        "owned_by": "pelton", "root": entry.config.name, "aliases": entry.config.aliases,
        "status": entry.state(), "kind": entry.kind().map(Kind::name),
        "max_model_len": context, "loras": loras,
        "capabilities": entry.loaded().map(|served| served.capabilities()),
        // as in the API of Anthropic
        "type": "model", "display_name": name, "created_at": created_at(entry.created),
    })
}

/// Seconds since 1970 as RFC 3339.
fn created_at(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or_default();
    jiff::Timestamp::from_second(seconds).unwrap_or_default().to_string()
}

/// `GET /v1/models`: each model under each of its names, in the forms of OpenAI and Anthropic at
/// once.
pub(in crate::api) async fn list(State(app): State<Arc<App>>) -> Answer<Value> {
    let mut data = Vec::new();
    for entry in app.registry.entries() {
        let names = std::iter::once(&entry.config.name).chain(&entry.config.aliases);
        data.extend(names.map(|name| model(&entry, name)));
    }
    let id = |model: Option<&Value>| model.map_or(Value::Null, |model| model["id"].clone());
    let (first, last) = (id(data.first()), id(data.last()));
    Answer(json!({
        "object": "list", "data": data, "has_more": false, "first_id": first, "last_id": last,
    }))
}

/// `GET /v1/models/{name}`
pub(in crate::api) async fn one(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
) -> Result<Answer<Value>, ApiError> {
    let entry = app.registry.named(&name)?;
    Ok(Answer(model(&entry, &name)))
}

/// `POST /models/load`
pub(in crate::api) async fn load(
    State(app): State<Arc<App>>,
    Json(mut fields): Json,
) -> Result<Answer<Value>, ApiError> {
    let name = fields.string("model")?;
    fields.finish(&[extras::ANY])?;
    let entry = app.registry.find(name.as_deref(), Kind::Text)?;
    app.registry.load(&entry).await?;
    Ok(Answer(json!({"success": true, "model": entry.config.name, "status": entry.state()})))
}

/// `POST /models/unload`
pub(in crate::api) async fn unload(
    State(app): State<Arc<App>>,
    Json(mut fields): Json,
) -> Result<Answer<Value>, ApiError> {
    let name = fields.string("model")?;
    fields.finish(&[extras::ANY])?;
    let entry = app.registry.find(name.as_deref(), Kind::Text)?;
    let unloaded = entry.unload().await;
    Ok(Answer(json!({"success": true, "model": entry.config.name, "unloaded": unloaded})))
}
