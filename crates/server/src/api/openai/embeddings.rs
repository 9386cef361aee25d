//! Embeddings.

use std::sync::Arc;

use axum::{Json as Answer, extract::State};
use base64::{Engine, prelude::BASE64_STANDARD};
use pelton::EmbedOptions;
use serde_json::{Value, json};

use super::prompts;
use crate::{
    app::{App, Caller, Json},
    error::ApiError,
    generate,
};

/// `POST /v1/embeddings`
pub(in crate::api) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    Json(mut fields): Json,
) -> Result<Answer<Value>, ApiError> {
    let model = fields.string("model")?;
    let texts = prompts::take(&app, &mut fields, "input")?;
    let encoding = fields.choice("encoding_format", &["float", "base64"])?;
    let mut options = EmbedOptions::default();
    options.dimensions = fields.count("dimensions", 1)?;
    options.normalize = fields.boolean("normalize")?.unwrap_or(true);
    let lease = app.registry.lease(model.as_deref()).await?;
    let context = app.context(lease, &caller, None);
    let name = context.lease.name.clone();
    let all = generate::embed(&context, texts, options).await?;
    let tokens: usize = all.iter().map(|embedding| embedding.tokens).sum();
    let one = |(index, embedding): (usize, pelton::Embedding)| {
        let values: Value = match encoding {
            Some("base64") => {
                let bytes: Vec<u8> =
                    embedding.values.iter().flat_map(|value| value.to_le_bytes()).collect();
                BASE64_STANDARD.encode(bytes).into()
            }
            // one vector for each token, without pooling
            _ if embedding.values.len() > embedding.dimensions => {
                embedding.vectors().map(|vector| Value::from_iter(vector.iter().copied())).collect()
            }
            _ => Value::from_iter(embedding.values),
        };
        json!({"object": "embedding", "index": index, "embedding": values})
    };
    let data: Vec<Value> = all.into_iter().enumerate().map(one).collect();
    Ok(Answer(json!({
        "object": "list", "data": data, "model": name,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    })))
}
