//! Embeddings.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use base64::{Engine, prelude::BASE64_STANDARD};
use pelton::EmbedOptions;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    super::vectors::{Vectors, large},
    prompts,
};
use crate::{
    app::{App, Caller, Json},
    error::ApiError,
    generate,
    input::extras,
};

#[derive(Serialize)]
struct List {
    object: &'static str,
    data: Vec<One>,
    model: String,
    usage: Value,
}

#[derive(Serialize)]
struct One {
    object: &'static str,
    index: usize,
    embedding: Encoded,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Encoded {
    Base64(String),
    Numbers(Vectors),
}

/// `POST /v1/embeddings`
pub(in crate::api) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    Json(mut fields): Json,
) -> Result<Response, ApiError> {
    let model = fields.string("model")?;
    let texts = prompts::take(&app, &mut fields, "input")?;
    let encoding = fields.choice("encoding_format", &["float", "base64"])?;
    let mut options = EmbedOptions::default();
    options.dimensions = fields.count("dimensions", 1)?;
    options.normalize = fields.boolean("normalize")?.unwrap_or(true);
    fields.finish(&[extras::ANY, extras::VECTORS])?;
    let lease = app.registry.lease_embedder(model.as_deref()).await?;
    let context = app.context(lease, &caller, None);
    let name = context.lease.name.clone();
    let all = generate::embed(&context, texts, options).await?;
    let tokens: usize = all.iter().map(|embedding| embedding.tokens).sum();
    let one = |(index, embedding): (usize, pelton::Embedding)| {
        let embedding = match encoding {
            Some("base64") => {
                let bytes: Vec<u8> =
                    embedding.values.iter().flat_map(|value| value.to_le_bytes()).collect();
                Encoded::Base64(BASE64_STANDARD.encode(bytes))
            }
            _ => Encoded::Numbers(Vectors::of(embedding)),
        };
        One { object: "embedding", index, embedding }
    };
    let data = all.into_iter().enumerate().map(one).collect();
    let usage = json!({"prompt_tokens": tokens, "total_tokens": tokens});
    large(List { object: "list", data, model: name, usage }).await
}
