//! The models: lists, details, and what the server does not do.

use std::{collections::BTreeMap, sync::Arc};

use axum::{Json as Answer, extract::State, http::StatusCode};
use jiff::Timestamp;
use pelton::{Checkpoint, weights::Value as Meta};
use serde_json::{Map, Value, json};

use super::request::model;
use crate::{
    app::{App, Json},
    error::ApiError,
    input::extras,
    models::{Entry, Kind, ModelFile},
};

/// Parameters as people say them.
fn size(parameters: u64) -> String {
    match parameters as f64 {
        count if count >= 1e9 => format!("{:.1}B", count / 1e9),
        count if count >= 1e6 => format!("{:.1}M", count / 1e6),
        count => format!("{:.0}K", count / 1e3),
    }
}

fn details(checkpoint: &Checkpoint) -> Value {
    let (mut types, mut parameters) = (BTreeMap::<&str, u64>::new(), 0);
    for tensor in checkpoint.tensors() {
        let count = tensor.row_len() as u64 * tensor.rows() as u64;
        *types.entry(tensor.dtype.name()).or_default() += count;
        parameters += count;
    }
    let level = types.into_iter().max_by_key(|(_, count)| *count).map_or("", |(name, _)| name);
    let metadata = checkpoint.metadata();
    let family = metadata.opt_string("general.architecture").ok().flatten().unwrap_or_default();
    json!({
        "parent_model": "", "format": "gguf", "family": family, "families": [family],
        "parameter_size": size(parameters), "quantization_level": level,
    })
}

fn time(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or_default();
    Timestamp::from_second(seconds).unwrap_or_default().to_string()
}

/// When the files of a model were changed; the start of the server for the built-in model.
fn modified(entry: &Entry, file: &ModelFile) -> String {
    time(if file.changed == 0 { entry.created } else { file.changed })
}

/// A model in a list.
fn entry(entry: &Entry) -> Value {
    let name = &entry.config.name;
    let file = ModelFile::of(entry.config.path.as_deref());
    let mut line = json!({
        "name": name, "model": name, "modified_at": modified(entry, &file),
        "size": file.bytes, "digest": file.digest,
        "details": {"parent_model": "", "format": "gguf", "family": "", "families": [],
                    "parameter_size": "", "quantization_level": ""},
    });
    if let Some(served) = entry.loaded()
        && let Ok(model) = served.model()
    {
        line["size"] = model.checkpoint().file_bytes().into();
        line["details"] = details(model.checkpoint());
    }
    line
}

/// `GET /api/tags`
pub(in crate::api) async fn tags(State(app): State<Arc<App>>) -> Answer<Value> {
    let models: Vec<Value> = app.registry.entries().iter().map(|one| entry(one)).collect();
    Answer(json!({"models": models}))
}

/// `GET /api/ps`
pub(in crate::api) async fn running(State(app): State<Arc<App>>) -> Answer<Value> {
    let mut models = Vec::new();
    for one in app.registry.entries() {
        let Some(served) = one.loaded() else { continue };
        let mut line = entry(&one);
        let expires = one
            .expires_in()
            .map(|left| Timestamp::now().checked_add(left).unwrap_or_default().to_string());
        // never, as Ollama writes it
        line["expires_at"] = expires.unwrap_or_else(|| "2318-01-01T00:00:00Z".to_owned()).into();
        line["size_vram"] = 0.into();
        line["context_length"] = served.model().map_or(0, |model| model.context()).into();
        models.push(line);
    }
    Answer(json!({"models": models}))
}

/// The version of Ollama whose API this is: clients refuse older ones.
const VERSION: &str = "0.12.6";

/// `GET /api/version`
pub(in crate::api) async fn version() -> Answer<Value> {
    Answer(json!({"version": VERSION}))
}

/// `POST /api/show`
pub(in crate::api) async fn show(
    State(app): State<Arc<App>>,
    Json(mut fields): Json,
) -> Result<Answer<Value>, ApiError> {
    let name = model(&mut fields)?;
    let verbose = fields.boolean("verbose")?.unwrap_or(false);
    fields.finish(&[extras::ANY, &["options", "system", "template"]])?;
    let entry = app.registry.find_exact(&name, Kind::Text)?;
    let served = app.registry.load(&entry).await?;
    let model = served.model()?;
    let checkpoint = model.checkpoint();
    let mut info = Map::new();
    for (key, value) in checkpoint.metadata().iter() {
        info.insert(key.to_owned(), json_of(value, verbose));
    }
    let file = ModelFile::of(entry.config.path.as_deref());
    let template = served.has_template.then(|| served.template()).transpose()?;
    Ok(Answer(json!({
        "modelfile": "", "parameters": format!("num_ctx {}", model.context()),
        "template": template.map_or("", |template| template.template().source()),
        "details": details(checkpoint), "model_info": info,
        "capabilities": served.capabilities(),
        "modified_at": modified(&entry, &file),
    })))
}

/// A value of the metadata; lists are null unless asked for.
fn json_of(value: &Meta, verbose: bool) -> Value {
    match value {
        Meta::U8(v) => json!(v),
        Meta::I8(v) => json!(v),
        Meta::U16(v) => json!(v),
        Meta::I16(v) => json!(v),
        Meta::U32(v) => json!(v),
        Meta::I32(v) => json!(v),
        Meta::U64(v) => json!(v),
        Meta::I64(v) => json!(v),
        Meta::F32(v) => json!(v),
        Meta::F64(v) => json!(v),
        Meta::Bool(v) => json!(v),
        Meta::String(bytes) => String::from_utf8_lossy(bytes).into(),
        Meta::Array(array) if verbose => {
            array.values().map(|value| json_of(&value, verbose)).collect()
        }
        Meta::Array(_) => Value::Null,
    }
}

fn unsupported(message: &'static str) -> ApiError {
    ApiError::new(StatusCode::NOT_IMPLEMENTED, message)
}

/// `POST /api/create`
pub(in crate::api) async fn create() -> ApiError {
    unsupported(
        "the server makes no models, expected a file that `pelton convert` or `pelton quantize` has \
         written, and its options in requests or on the server's command line",
    )
}

/// `POST /api/copy`
pub(in crate::api) async fn copy() -> ApiError {
    unsupported("models get further names when the server starts, expected --alias NAME=MODEL")
}

/// `POST /api/push`
pub(in crate::api) async fn push() -> ApiError {
    unsupported("the server uploads no models, expected the tools of the hub, such as `hf upload`")
}
