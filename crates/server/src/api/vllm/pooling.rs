//! The result of a model for texts: their embeddings, whatever its pooling.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode, response::Response};
use pelton::EmbedOptions;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    api::{
        openai::{prompts, usage::now},
        vectors::{Vectors, large},
    },
    app::{App, Caller, Json},
    error::ApiError,
    generate,
    input::extras,
    wire::new_id,
};

#[derive(Serialize)]
struct List {
    id: String,
    object: &'static str,
    created: u64,
    model: String,
    data: Vec<One>,
    usage: Value,
}

#[derive(Serialize)]
struct One {
    index: usize,
    object: &'static str,
    data: Vectors,
}

/// `POST /pooling`
pub(in crate::api) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    Json(mut fields): Json,
) -> Result<Response, ApiError> {
    let model = fields.string("model")?;
    let texts = prompts::take(&app, &mut fields, "input")?;
    fields.choice("task", &["embed"])?;
    fields.choice("encoding_format", &["float"])?;
    let mut options = EmbedOptions::default();
    options.dimensions = fields.count("dimensions", 1)?;
    options.normalize = fields.boolean("use_activation")?.unwrap_or(true);
    fields.finish(&[extras::ANY, extras::VECTORS])?;
    let lease = app.registry.lease_embedder(model.as_deref()).await?;
    let context = app.context(lease, &caller, None);
    let all = generate::embed(&context, texts, options).await?;
    let tokens: usize = all.iter().map(|one| one.tokens).sum();
    let one = |(index, embedding)| One { index, object: "pooling", data: Vectors::of(embedding) };
    large(List {
        id: new_id("pool-"),
        object: "list",
        created: now(),
        model: context.lease.name.clone(),
        data: all.into_iter().enumerate().map(one).collect(),
        usage: json!({"prompt_tokens": tokens, "total_tokens": tokens}),
    })
    .await
}

/// `POST /classify`
pub(in crate::api) async fn classify() -> ApiError {
    ApiError::new(
        StatusCode::NOT_IMPLEMENTED,
        "no model here has classes, expected /v1/score or /v1/rerank with a model of relevance",
    )
}
