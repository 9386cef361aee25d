//! Health, properties, slots, metrics.

use std::sync::Arc;

use axum::{
    Json as Answer,
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use pelton::Sampling;
use serde_json::{Map, Value, json};

use super::pictured::MARKER;
use crate::{
    app::{App, Phase},
    error::ApiError,
    generate::option_json,
    metrics::{Gauges, ReplicaGauges, render},
    models::{Replica, Replicas, Served},
};

/// The replicas of all models that were given up. No reasons: health needs no key.
fn down(app: &App) -> Vec<Value> {
    let mut all = Vec::new();
    for entry in app.registry.entries() {
        let Some(served) = entry.loaded() else { continue };
        let replicas = served.replicas().into_iter().flat_map(Replicas::all).enumerate();
        let gone = replicas.filter(|(_, one)| one.gone.is_some());
        all.extend(gone.map(|(i, _)| json!({"model": served.name, "replica": i})));
    }
    all
}

/// `GET /health`: 200 once the models are loaded that are to be there from the start, 503 before,
/// at the end, and if a model could not be loaded, or all its replicas were given up. `down` has
/// those that were.
pub(in crate::api) async fn health(State(app): State<Arc<App>>) -> Response {
    let entries = app.registry.entries();
    let mut states = entries.iter().map(|entry| entry.state());
    let gone = |served: Arc<Served>| served.model().is_ok_and(|model| model.check().is_err());
    let status = match app.phase() {
        Phase::Stopping => "shutting down",
        Phase::Loading => "loading model",
        Phase::Ready if states.any(|state| state == "failed") => "error",
        Phase::Ready if entries.iter().filter_map(|entry| entry.loaded()).any(gone) => "error",
        Phase::Ready => "ok",
    };
    let code = if status == "ok" { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut body = json!({"status": status});
    let down = down(&app);
    if !down.is_empty() {
        body["down"] = down.into();
    }
    let mut response = (code, Answer(body)).into_response();
    if code != StatusCode::OK {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// `GET /live`: 200 as long as the process answers.
pub(in crate::api) async fn live() -> Answer<Value> {
    Answer(json!({"status": "ok"}))
}

/// `GET /metrics`
pub(in crate::api) async fn metrics(State(app): State<Arc<App>>) -> Response {
    let mut models = Vec::new();
    for entry in app.registry.entries() {
        let served = entry.loaded();
        let status = served.as_ref().map(|served| served.status());
        let replicas = served.as_ref().and_then(|served| served.replicas().ok());
        let gauges = Gauges {
            loaded: served.is_some(),
            status: status.unwrap_or_default(),
            loras: replicas.map_or(0, |replicas| replicas.first().loras().len()),
            replicas: replicas.into_iter().flat_map(Replicas::all).map(load_of).collect(),
        };
        let name = entry.config.name.clone();
        models.push((name.clone(), app.metrics.model(&name), gauges));
    }
    let text = render(app.config.metrics, &app.metrics.http, &models);
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// The gauges of one replica.
fn load_of(replica: Replica<'_>) -> ReplicaGauges {
    let shares = replica.model.placement().devices.iter();
    ReplicaGauges {
        up: replica.gone.is_none(),
        requests: replica.requests,
        devices: shares.map(|share| (share.device.clone(), share.needs.most())).collect(),
    }
}

fn piece(served: &Served, id: Option<u32>) -> Value {
    let tokenizer = served.model().ok().and_then(|model| model.tokenizer().ok());
    tokenizer.zip(id).and_then(|(tokenizer, id)| tokenizer.token_text(id)).into()
}

/// `GET /props`
pub(in crate::api) async fn props(State(app): State<Arc<App>>) -> Result<Answer<Value>, ApiError> {
    let entry = first(&app)?;
    let served = app.registry.load(&entry).await?;
    let model = served.model()?;
    let tokenizer = model.tokenizer().ok();
    let mut params = Map::new();
    for option in Sampling::OPTIONS {
        let value = option_json(option, &served.sampling);
        if !value.is_null() {
            params.insert(option.llama_cpp.to_owned(), value);
        }
    }
    let template = served.template().ok();
    let caps = template.map(|template| {
        let caps = template.template().capabilities();
        json!({
            "supports_system_role": caps.system, "supports_tools": caps.tools,
            "supports_tool_calls": caps.tool_calls, "supports_thinking": caps.thinking,
        })
    });
    Ok(Answer(json!({
        "default_generation_settings": {
            "n_ctx": model.context(),
            "params": params,
        },
        "total_slots": slots_of(&app) * app.registry.replicas(),
        "model_alias": served.name,
        "model_path": entry.config.path.as_deref().map(|path| path.display().to_string()),
        "modalities": {"vision": served.takes_images(), "audio": false},
        "media_marker": MARKER,
        "chat_template": template.filter(|_| served.has_template).map(|t| t.template().source()),
        "chat_template_caps": caps,
        "bos_token": piece(&served, tokenizer.and_then(|t| t.bos())),
        "eos_token": piece(&served, tokenizer.and_then(|t| t.eos())),
        "build_info": format!("pelton {}", env!("CARGO_PKG_VERSION")),
        "backend": app.registry.backend(),
    })))
}

/// `POST /props`
pub(in crate::api) async fn set_props() -> ApiError {
    ApiError::new(
        StatusCode::NOT_IMPLEMENTED,
        "properties are set when the server starts, expected options of `pelton serve`",
    )
}

/// The first model.
pub(super) fn first(app: &App) -> Result<Arc<crate::models::Entry>, ApiError> {
    app.registry.first().ok_or_else(|| ApiError::unavailable("the server has no model"))
}

/// Sequences that run at the same time at each replica.
fn slots_of(app: &App) -> usize {
    app.config.load.max_concurrent.unwrap_or(1)
}

/// `GET /slots`: the load of each model. Requests have no fixed slots; the counts are what matters.
pub(in crate::api) async fn slots(State(app): State<Arc<App>>) -> Answer<Value> {
    let mut all = Vec::new();
    for entry in app.registry.entries() {
        let Some(served) = entry.loaded() else { continue };
        let slots = slots_of(&app);
        for (replica, one) in served.replicas().into_iter().flat_map(Replicas::all).enumerate() {
            let running = one.model.status().running;
            for slot in 0..slots {
                all.push(json!({
                    "id": replica * slots + slot, "model": served.name, "n_ctx": one.model.context(),
                    "is_processing": slot < running, "replica": replica,
                }));
            }
        }
    }
    Answer(all.into())
}

/// `GET /tokenizer_info`
pub(in crate::api) async fn tokenizer_info(
    State(app): State<Arc<App>>,
) -> Result<Answer<Value>, ApiError> {
    let served = app.registry.load(&first(&app)?).await?;
    let tokenizer = served.model()?.tokenizer()?;
    let pad = tokenizer.eos();
    Ok(Answer(json!({
        "bos_token": piece(&served, tokenizer.bos()),
        "eos_token": piece(&served, tokenizer.eos()),
        "pad_token": piece(&served, pad),
        "chat_template": tokenizer.chat_template(),
        "vocab_size": tokenizer.vocab_size(),
        "model_max_length": served.model()?.context(),
    })))
}
