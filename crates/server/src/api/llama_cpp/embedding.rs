//! Embeddings and adapters, as llama.cpp answers them.

use std::sync::Arc;

use axum::{Json as Answer, extract::State, response::Response};
use pelton::EmbedOptions;
use serde::Serialize;
use serde_json::{Value, json};

use super::super::{
    openai::{embeddings, prompts},
    vectors::{Vectors, large},
};
use crate::{
    app::{App, Caller, Json},
    error::ApiError,
    generate,
    input::extras,
};

#[derive(Serialize)]
struct One {
    index: usize,
    embedding: Vectors,
}

/// `POST /embedding` and `/embeddings`: `content` is llama.cpp's field, `input` that of OpenAI.
pub(in crate::api) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    Json(mut fields): Json,
) -> Result<Response, ApiError> {
    if !fields.has("content") {
        return embeddings::create(State(app), caller, Json(fields)).await;
    }
    let model = fields.string("model")?;
    let texts = prompts::take(&app, &mut fields, "content")?;
    fields.finish(&[extras::ANY, extras::VECTORS])?;
    let lease = app.registry.lease_embedder(model.as_deref()).await?;
    let context = app.context(lease, &caller, None);
    let all = generate::embed(&context, texts, EmbedOptions::default()).await?;
    let one = |(index, embedding): (usize, pelton::Embedding)| One {
        index,
        embedding: Vectors::all(embedding),
    };
    large(all.into_iter().enumerate().map(one).collect::<Vec<_>>()).await
}

/// `GET /lora-adapters`
pub(in crate::api) async fn loras(State(app): State<Arc<App>>) -> Answer<Value> {
    let one = |(id, lora): (usize, &pelton::Lora)| json!({"id": id, "path": lora.path.display().to_string(), "scale": lora.scale});
    Answer(app.config.load.loras.iter().enumerate().map(one).collect())
}
